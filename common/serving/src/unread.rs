//! What a config says that is read nowhere here.

/// A field of `quantization_config` that is read nowhere here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The field.
    pub field: String,
    /// What it says.
    pub found: String,
    /// What it could have said.
    pub expected: String,
}

/// What a config says of how weights are stored.
pub(crate) const FIELD: &str = "quantization_config";

pub(crate) const METHODS: &str =
    "a quantisation that is read here (docs/serving.md); --dtype says how weights are stored";

pub(crate) fn unread(field: &str, found: impl Into<String>, expected: &str) -> Unread {
    let field = if field.is_empty() { FIELD.to_string() } else { format!("{FIELD}.{field}") };
    Unread { field, found: found.into(), expected: expected.to_string() }
}
