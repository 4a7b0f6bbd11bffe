//! Reads find-db keys. Strict: whatever is accepted prints back byte for byte.

use std::fmt;
use std::str::{FromStr, Split};

use bluefin_common::problem::{DataType, ProblemError};

use super::FindDbKey;
use crate::key::label::LayoutLabel;
use crate::key::types::parse_types;

/// Far longer than any key: 3D sizes of ten digits with three layouts and types stay under 400 bytes.
const MAX_LENGTH: usize = 512;

/// Why a text is no find-db key, or a key no problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A field is missing, is not of its form, or does not fit the others.
    #[error("find-db key: {field}: found {found}, expected {expected}")]
    Malformed {
        /// Which field.
        field: &'static str,
        /// What was there, cut short.
        found: String,
        /// What could have been there.
        expected: String,
    },
    /// A 3D key of an obsolete shape (two-part pad, layout NCHW). Files of old releases hold some, and no MIOpen looks
    /// them up any more: an importer passes over them.
    #[error("find-db key: legacy 3D shape with a two-part pad, which no MIOpen looks up any more")]
    LegacyShape,
    /// The values do not make a problem.
    #[error("find-db key: {0}")]
    Problem(#[from] ProblemError),
}

impl KeyError {
    pub(in crate::key) fn malformed(
        field: &'static str,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Malformed { field, found: found.to_string().chars().take(80).collect(), expected: expected.into() }
    }
}

impl FindDbKey {
    /// Reads a key as MIOpen prints it.
    ///
    /// # Errors
    /// The first field that is not what MIOpen would have printed.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.len() > MAX_LENGTH {
            let found = format!("{} bytes", text.len());
            return Err(KeyError::malformed("length", found, format!("at most {MAX_LENGTH} bytes")));
        }
        // The first three fields are plain sizes in both shapes. A fourth without an `x` is another size, so there is
        // a depth.
        let fourth = text.split('-').nth(3).unwrap_or_default();
        let spatial = if fourth.contains('x') { 2 } else { 3 };
        if spatial == 3 && is_legacy(text) {
            return Err(KeyError::LegacyShape);
        }
        Fields { fields: text.split('-'), spatial }.key()
    }
}

impl FromStr for FindDbKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// The obsolete 3D shape, for example `1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F`.
fn is_legacy(text: &str) -> bool {
    text.split('-').nth(10).is_some_and(|pad| pad.split('x').count() == 2)
}

struct Fields<'a> {
    fields: Split<'a, char>,
    spatial: u32,
}

impl<'a> Fields<'a> {
    fn key(mut self) -> Result<FindDbKey, KeyError> {
        let in_channels = self.size("in channels")?;
        let input = self.sizes("in size")?;
        let filter = self.group("filter size", 1)?;
        let out_channels = self.size("out channels")?;
        let output = self.sizes("out size")?;
        let batch = self.size("batch size")?;
        let pad = self.group("pad", 0)?;
        let stride = self.group("stride", 1)?;
        let dilation = self.group("dilation", 1)?;
        let bias = self.size("bias")?;
        let layouts = self.layouts()?;
        let types = self.next("data type")?;
        let types = parse_types(types)
            .ok_or_else(|| KeyError::malformed("data type", quoted(types), "one type name, or three that differ"))?;
        let mut options = self.next("direction")?.split('_');
        let direction = options.next().unwrap_or_default().parse()?;
        if let Some(extra) = self.fields.next() {
            return Err(KeyError::malformed("end", quoted(extra), "nothing after the direction"));
        }
        let (group, casts) = parse_options(options)?;
        Ok(FindDbKey {
            spatial: self.spatial,
            in_channels,
            input,
            filter,
            out_channels,
            output,
            batch,
            pad,
            stride,
            dilation,
            bias,
            layouts,
            types,
            direction,
            group,
            casts,
        })
    }

    fn next(&mut self, field: &'static str) -> Result<&'a str, KeyError> {
        self.fields.next().ok_or_else(|| KeyError::malformed(field, "the end of the key", "another field"))
    }

    fn size(&mut self, field: &'static str) -> Result<u32, KeyError> {
        let text = self.next(field)?;
        parse_size(text).ok_or_else(|| KeyError::malformed(field, quoted(text), "a decimal number"))
    }

    /// Sizes in fields of their own: `[D-]H-W`.
    fn sizes(&mut self, field: &'static str) -> Result<[u32; 3], KeyError> {
        let depth = if self.spatial == 3 { self.size(field)? } else { 1 };
        Ok([depth, self.size(field)?, self.size(field)?])
    }

    /// Sizes in one field: `[D]xHxW`. `depth` is what stands for the depth in two dimensions.
    fn group(&mut self, field: &'static str, depth: u32) -> Result<[u32; 3], KeyError> {
        let text = self.next(field)?;
        let mut parts = text.split('x').map(parse_size);
        let first = if self.spatial == 3 { parts.next().flatten() } else { Some(depth) };
        match (first, parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(d), Some(h), Some(w), None) => Ok([d, h, w]),
            _ => {
                let expected = format!("{} decimal numbers joined by x", self.spatial);
                Err(KeyError::malformed(field, quoted(text), expected))
            }
        }
    }

    fn layouts(&mut self) -> Result<[LayoutLabel; 3], KeyError> {
        let first = self.layout()?;
        if first.is_default() {
            // One default label may stand for all three, or be the first of three of which another differs: what
            // follows tells, since no type name is a layout.
            let rest = self.fields.clone().next().unwrap_or_default();
            if LayoutLabel::parse(rest, self.spatial).is_none() {
                return Ok([first; 3]);
            }
        }
        let layouts = [first, self.layout()?, self.layout()?];
        if layouts.iter().all(|layout| layout.is_default()) {
            return Err(KeyError::malformed("layout", format!("{first} three times"), format!("{first} once")));
        }
        Ok(layouts)
    }

    fn layout(&mut self) -> Result<LayoutLabel, KeyError> {
        let text = self.next("layout")?;
        LayoutLabel::parse(text, self.spatial).ok_or_else(|| {
            let letters = if self.spatial == 3 { "NCDHW" } else { "NCHW" };
            KeyError::malformed("layout", quoted(text), format!("the letters {letters} in some order"))
        })
    }
}

type Options = (u32, [Option<DataType>; 3]);

/// `_gG`, `_ciT`, `_cwT`, `_coT`: each at most once, in this order.
fn parse_options<'a>(options: impl Iterator<Item = &'a str>) -> Result<Options, KeyError> {
    let wrong =
        |option| KeyError::malformed("options", quoted(option), "g, ci, cw and co, each once and in this order");
    let (mut group, mut casts) = (1, [None; 3]);
    // How many kinds of option have been passed already.
    let mut passed = 0;
    for option in options {
        let (kind, value) = [("g", 0), ("ci", 1), ("cw", 2), ("co", 3)]
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, option.strip_prefix(prefix)?)))
            .ok_or_else(|| wrong(option))?;
        if kind < passed {
            return Err(wrong(option));
        }
        passed = kind + 1;
        if kind == 0 {
            group = parse_size(value)
                .filter(|group| *group != 1)
                .ok_or_else(|| KeyError::malformed("group count", quoted(value), "a decimal number other than 1"))?;
        } else {
            let cast =
                DataType::split_prefix(value).filter(|(_, rest)| rest.is_empty()).map(|(data_type, _)| data_type);
            let slot = casts.get_mut(kind - 1).ok_or_else(|| wrong(option))?;
            *slot = Some(cast.ok_or_else(|| KeyError::malformed("cast type", quoted(value), "one type name"))?);
        }
    }
    Ok((group, casts))
}

/// Decimal digits as they are printed: no sign and no leading zero.
pub(in crate::key) fn parse_size(text: &str) -> Option<u32> {
    let printed = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    printed.then(|| text.parse().ok()).flatten()
}

fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_back() {
        let keys = [
            "576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F",
            "1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B",
            "64-28-28-3x3-64-28-28-2-1x1-1x1-1x1-0-NHWC-NCHW-NHWC-FP32-W_g2",
            "1024-4-14-14-1x1x1-256-4-14-14-4-0x0x0-1x1x1-1x1x1-0-NCDHW-FP32-B",
            "512-56-8-3x7-128-54-6-2-2x2-1x1-3x1-0-NCHW-INT8INT8INT32-F_g8",
            "16-4-4-1x1-32-4-4-8-0x0-1x1-1x1-0-NCHWc-NCHWc-NCHWc-INT8INT8INT32-F",
            "64-28-28-1x1-64-28-28-2-0x0-1x1-1x1-0-NCHW-FP16-F_g4_ciFP8_cwFP8_coBF8",
            "1-5-1-3x1-4-3-1-2-0x0-1x1-1x1-0-NHCW-NCHW-NHWC-FP32-F",
        ];
        for text in keys {
            let key = FindDbKey::parse(text).unwrap();
            assert_eq!(key.to_string(), text);
            let problem = key.problem().unwrap();
            assert_eq!(FindDbKey::from(&problem).to_string(), text);
        }
    }

    #[test]
    fn the_legacy_shape_is_told_apart() {
        let text = "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F";
        assert_eq!(FindDbKey::parse(text), Err(KeyError::LegacyShape));
    }

    #[test]
    fn what_would_print_differently_is_refused() {
        let wrong = [
            ("", "in channels: found \"\", expected a decimal number"),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32", "direction: found the end of the key"),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-NCHW-NCHW-FP32-F", "layout: found NCHW three times"),
            ("0576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F", "in channels: found \"0576\""),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1x1-1x1-0-NCHW-FP32-F", "stride: found \"1x1x1\""),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32FP32FP32-F", "data type: found \"FP32FP32FP32\""),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F_g1", "group count: found \"1\""),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F_ciFP8_g2", "options: found \"g2\""),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F-1", "end: found \"1\""),
            ("99999999999-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F", "in channels: found \"99999999999\""),
        ];
        for (text, message) in wrong {
            let error = FindDbKey::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("find-db key: {message}")), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_that_no_problem_has_gives_none() {
        for (text, message) in [
            ("576-4-4-1x1-192-5-4-8-0x0-1x1-1x1-0-NCHW-FP32-F", "size of y: found 1,5,4, expected 1,4,4"),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-1-NCHW-FP32-F", "bias: found 1"),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NHWC-NCHW-NHWC-FP32-F", "layouts: found"),
            ("576-4-4-1x1-192-4-4-8-0x0-1x1-1x1-0-NCHW-FP32-F_g5", "input channels: found 576, expected a multiple"),
        ] {
            let key = FindDbKey::parse(text).unwrap();
            let error = key.problem().unwrap_err().to_string();
            assert!(error.starts_with(&format!("find-db key: {message}")), "{text}: {error}");
        }
    }
}
