//! What somebody may have meant who wrote a name that there is none of.

/// Names that are told where none is alike.
const TOLD: usize = 8;
/// From which likeness on, of 1, a name may have been meant.
const ALIKE: f64 = 0.8;

/// `did you mean nightly?`, where a name that is `known` is much like `found`.
#[must_use]
pub fn alike<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let plain = |name: &str| name.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&plain(name), &plain(found));
    let others = known.into_iter().filter(|name| *name != found);
    let best = others.map(|name| (likeness(name), name)).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| format!("did you mean {name}?"))
}

/// What to say behind a name that is not `known`: `did you mean nightly?`, `there are a, b`, or that there is none at all.
#[must_use]
pub fn instead<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    if let Some(meant) = alike(found, known.iter().copied()) {
        return meant;
    }
    match known.as_slice() {
        [] => "there is none at all".to_string(),
        [only] => format!("there is {only}"),
        all => {
            let told = all.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
            let more = all.len().saturating_sub(TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("there are {told}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_alike_is_suggested() {
        assert_eq!(instead("nigthly", ["weekly", "nightly"]), "did you mean nightly?");
        assert_eq!(instead("stenciltiled", ["StencilReference", "StencilTiled"]), "did you mean StencilTiled?");
    }

    #[test]
    fn else_what_there_is_is_told() {
        assert_eq!(instead("x", ["weekly", "nightly"]), "there are nightly, weekly");
        assert_eq!(instead("x", ["weekly"]), "there is weekly");
        assert_eq!(instead("x", []), "there is none at all");
        let many: Vec<String> = (0..20).map(|index| format!("s{index:02}")).collect();
        let said = instead("other", many.iter().map(String::as_str));
        assert!(said.ends_with("s07 and 12 more"), "{said}");
    }
}
