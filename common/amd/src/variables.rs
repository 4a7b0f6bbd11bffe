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

impl Variable {
    /// What a byte of the image is called, by its distance from the variable.
    fn place(&self, offset: i64) -> Place {
        let Self { name, range } = self;
        let size = range.end - range.start;
        let element = if size.is_multiple_of(4) && range.start.is_multiple_of(4) { 4 } else { 1 };
        buffer_place(name, element, size, offset.wrapping_sub_unsigned(range.start))
    }
}

/// Those of an image, and the bytes that are no part of any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// By address.
    pub all: Vec<Variable>,
    /// What is behind one and in nothing else, and what is of linkers and runtimes: no kernel has anything to look for there.
    pub gaps: Vec<Range<u64>>,
    /// Of those, what is of linkers and runtimes.
    foreign: Vec<Range<u64>>,
}

/// Bytes behind a section that count as behind its last variable.
const BEHIND: u64 = 4096;
/// What compilers put into each unit, which is behind the last variable that is zero.
const OF_COMPILERS: &str = "__hip_cuid_";

/// Where something of a file lies, and whether all that is in it has a name, as what kernels may write does.
pub(crate) struct Section {
    pub range: Range<u64>,
    pub is_named: bool,
}

impl Variables {
    /// Of what a file names: `all` may be empty at a place that has a label alone. `foreign` is of linkers and runtimes.
    pub fn new(mut all: Vec<Variable>, sections: &[Section], mut foreign: Vec<Range<u64>>) -> Self {
        let is_compilers = |variable: &Variable| variable.name.starts_with(OF_COMPILERS);
        let holds = |section: &Section, of: bool| {
            all.iter().any(|one| section.range.contains(&one.range.start) && is_compilers(one) == of)
        };
        let sections: Vec<&Section> = sections.iter().filter(|one| !holds(one, true) || holds(one, false)).collect();
        all.retain(|variable| !is_compilers(variable));
        all.sort_by_key(|variable| (variable.range.start, variable.range.end));
        all.dedup_by_key(|variable| variable.range.clone());
        let mut gaps: Vec<Range<u64>> = Vec::new();
        let mut most = 0;
        for (at, variable) in all.iter().enumerate() {
            let end = variable.range.end;
            // One may be within another, by a name of its own.
            let is_within = most > end;
            most = most.max(end);
            let section = sections.iter().find(|one| one.range.contains(&variable.range.start));
            let Some(section) = section.filter(|_| !is_within) else { continue };
            let next = all.get(at + 1).map_or(u64::MAX, |next| next.range.start);
            // Elsewhere constants that have no names may lie behind it; how long a label alone is nobody says.
            if section.is_named && !variable.range.is_empty() {
                gaps.push(end..next.min(section.range.end).max(end));
            }
            if next >= section.range.end {
                let from = section.range.end;
                let others = sections.iter().map(|other| other.range.start).filter(|start| *start >= from);
                gaps.push(from..others.fold(from.saturating_add(BEHIND), u64::min).min(next.max(from)));
            }
        }
        all.retain(|variable| !variable.range.is_empty());
        // In front of a section that begins with a variable, nothing is.
        for section in sections.iter().filter(|one| all.iter().any(|of| of.range.start == one.range.start)) {
            let start = section.range.start;
            let ends = sections.iter().map(|other| &other.range).chain(&gaps).chain(&foreign).map(|range| range.end);
            let before = ends.filter(|end| *end <= start).max().unwrap_or(0);
            let is_behind = gaps.iter().any(|gap| gap.contains(&start.saturating_sub(1)));
            if !is_behind {
                foreign.push(before..start);
            }
        }
        foreign.retain(|range| !range.is_empty() && !all.is_empty());
        gaps.extend(foreign.iter().cloned());
        gaps.retain(|gap| !gap.is_empty());
        gaps.sort_by_key(|gap| (gap.start, gap.end));
        Self { all, gaps, foreign }
    }

    /// What a byte of the image is called, by the variable that it is in or behind.
    pub fn place(&self, offset: i64) -> Option<Place> {
        let at = u64::try_from(offset).ok()?;
        if self.foreign.iter().any(|range| range.contains(&at)) {
            let next = self.all.iter().find(|variable| variable.range.start > at)?;
            return Some(next.place(offset)).filter(|_| next.range.start - at <= BEHIND);
        }
        let before = self.all.partition_point(|variable| variable.range.start <= at);
        let variable = self.all.get(before.checked_sub(1)?)?;
        if at >= variable.range.end && !self.is_gap(at) {
            return None;
        }
        Some(variable.place(offset))
    }

    pub fn is_gap(&self, offset: u64) -> bool {
        self.first_in_gap(&(offset..offset.saturating_add(1))).is_some()
    }

    /// The first byte of a range that is in a gap.
    pub fn first_in_gap(&self, range: &Range<u64>) -> Option<u64> {
        let at = self.gaps.partition_point(|gap| gap.end <= range.start);
        self.gaps.get(at).map(|gap| gap.start.max(range.start)).filter(|first| *first < range.end)
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
        let section = |range, is_named| Section { range, is_named };
        let sections = [section(64..256, false), section(512..600, true), section(4096..8192, false)];
        let all = vec![
            of("__hip_cuid_1", 564..565),
            of("label", 140..140),
            of("c", 560..564),
            of("a", 64..84),
            of("b", 96..128),
            of("alias", 64..84),
            of("d", 512..528),
        ];
        let variables = Variables::new(all, &sections, vec![16..32, 32..64]);
        assert_eq!(variables.gaps, [16..32, 32..64, 256..512, 528..560, 564..600, 600..4096]);
        let place = |name: &str, offset, element, elements| {
            Some(Place::Buffer { name: name.into(), offset, element, elements })
        };
        assert_eq!(variables.place(564), place("c", 4, 1, 1));
        assert_eq!(variables.place(100), place("b", 4, 1, 8));
        assert_eq!((variables.place(84), variables.place(-4), variables.place(4096)), (None, None, None));
        assert_eq!(variables.place(60), place("a", -4, -1, 5), "in front of the first");
        assert!(variables.is_gap(300) && !variables.is_gap(130));
        assert_eq!((variables.first_in_gap(&(520..532)), variables.first_in_gap(&(80..100))), (Some(528), None));
    }

    /// A section in which a compiler has put something of its own alone is none.
    #[test]
    fn what_compilers_put_behind_a_variable_is_no_part_of_it_either() {
        let of = |name: &str, range: Range<u64>| Variable { name: name.into(), range };
        let section = |range| Section { range, is_named: true };
        let all = vec![of("table", 64..96), of("__hip_cuid_1", 96..97)];
        let variables = Variables::new(all, &[section(64..96), section(96..97)], Vec::new());
        assert_eq!(variables.gaps, [0..64, 96..96 + BEHIND]);
    }

    #[test]
    fn nothing_is_in_front_of_the_first_variable_of_a_section() {
        let all = vec![Variable { name: "table".into(), range: 512..544 }];
        let section = |range| Section { range, is_named: true };
        let variables = Variables::new(all, &[section(64..128), section(512..544)], Vec::new());
        let Some(Place::Buffer { name, offset, element, elements }) = variables.place(508) else { panic!("a place") };
        assert_eq!((name.as_str(), offset, element, elements), ("table", -4, -1, 8));
        assert_eq!((variables.first_in_gap(&(508..512)), variables.place(100)), (Some(508), None));
    }
}
