//! The variables of a code object: what a place in its image is called, and what lies between them.

use std::ops::Range;

use crate::verdict::Place;

/// A variable of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub name: String,
    /// Its bytes.
    pub range: Range<u64>,
}

/// Those of an image, and the bytes that are no part of any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// By address.
    pub all: Vec<Variable>,
    /// What is behind one and in nothing else: no kernel has anything to look for there.
    pub gaps: Vec<Range<u64>>,
}

/// Padding that may be between constants that have no names.
const PADDING: u64 = 16;
/// Bytes behind a section that count as behind its last variable.
const BEHIND: u64 = 4096;

/// Where something of a file lies, and whether kernels may write it.
pub(crate) struct Section {
    pub range: Range<u64>,
    pub is_writable: bool,
}

impl Variables {
    pub fn new(mut all: Vec<Variable>, sections: &[Section]) -> Self {
        all.retain(|variable| !variable.range.is_empty());
        all.sort_by_key(|variable| (variable.range.start, variable.range.end));
        all.dedup_by_key(|variable| variable.range.clone());
        let mut gaps = Vec::new();
        for (at, variable) in all.iter().enumerate() {
            let end = variable.range.end;
            // One may be within another, by a name of its own.
            if all.iter().take(at).any(|other| other.range.end > end) {
                continue;
            }
            let Some(section) = sections.iter().find(|one| one.range.contains(&variable.range.start)) else { continue };
            let next = all.get(at + 1).map_or(u64::MAX, |next| next.range.start);
            let within = end..next.min(section.range.end).max(end);
            // Constants that have no names may lie behind one that has.
            if section.is_writable || within.end - within.start < PADDING {
                gaps.push(within);
            }
            if next >= section.range.end {
                let from = section.range.end;
                let others = sections.iter().map(|other| other.range.start).filter(|start| *start >= from);
                gaps.push(from..others.fold(from + BEHIND, u64::min).min(next.max(from)));
            }
        }
        gaps.retain(|gap| !gap.is_empty());
        Self { all, gaps }
    }

    /// What a byte of the image is called, by the variable that it is in or behind.
    pub fn place(&self, offset: i64) -> Option<Place> {
        let at = u64::try_from(offset).ok()?;
        let before = self.all.partition_point(|variable| variable.range.start <= at);
        let Variable { name, range } = self.all.get(before.checked_sub(1)?)?;
        if at >= range.end && !self.is_gap(at) {
            return None;
        }
        let size = range.end - range.start;
        let element = if size.is_multiple_of(4) && range.start.is_multiple_of(4) { 4 } else { 1 };
        Some(buffer_place(name, element, size, (at - range.start) as i64))
    }

    pub fn is_gap(&self, offset: u64) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&offset))
    }
}

/// A byte of a buffer, by the element that it is in.
pub(crate) fn buffer_place(name: &str, element: u32, size: u64, offset: i64) -> Place {
    let width = i64::from(element.max(1));
    Place::Buffer {
        name: name.to_string(),
        offset,
        element: offset.div_euclid(width),
        elements: size / u64::from(element.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_variable_is_no_part_of_it() {
        let of = |name: &str, range: Range<u64>| Variable { name: name.into(), range };
        let section = |range, is_writable| Section { range, is_writable };
        let sections = [section(64..256, false), section(512..600, true), section(4096..8192, false)];
        let all = vec![of("c", 560..564), of("a", 64..84), of("b", 96..128), of("alias", 64..84), of("d", 512..528)];
        let variables = Variables::new(all, &sections);
        assert_eq!(variables.gaps, [84..96, 256..512, 528..560, 564..600, 600..4096]);
        let place = |name: &str, offset, element, elements| {
            Some(Place::Buffer { name: name.into(), offset, element, elements })
        };
        assert_eq!(variables.place(84), place("a", 20, 5, 5));
        assert_eq!(variables.place(100), place("b", 4, 1, 8));
        assert_eq!((variables.place(130), variables.place(-4), variables.place(4096)), (None, None, None));
        assert!(variables.is_gap(300) && !variables.is_gap(130));
    }
}
