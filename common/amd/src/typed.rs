//! Formats of typed buffers: what an element in memory is made of, and how it comes into registers and back ("Buffer Data" of the
//! instruction set documents).

mod convert;
mod names;

pub(crate) use self::names::{format, text};
use crate::target::Generation;

/// What the bits of a component are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numeric {
    /// From 0 to 1.
    Unorm,
    /// From -1 to 1.
    Snorm,
    /// Integers, which are floats in registers.
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

/// An element: its components, of which the first one has the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// 0 where there is no component any more.
    pub bits: [u8; MOST],
    pub numeric: Numeric,
}

/// Components that an element has at most.
pub(crate) const MOST: usize = 4;

/// What an instruction on a typed buffer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// In registers.
    pub components: u8,
    /// Which of an element's they are, a bit each.
    pub chosen: u8,
    /// Two components in each register; or one in this half of it (the upper one if true).
    pub halves: bool,
    pub high: bool,
    /// The number of the format, `None` if the descriptor says it.
    pub format: Option<u8>,
}

impl Typed {
    /// `format_xyz`, `format_d16_x`, `d16_hi_format_x`.
    pub fn named(what: &str) -> Option<Self> {
        let rest = what.replacen("format_", "", 1);
        if rest == what {
            return None;
        }
        let (rest, halves) = rest.strip_prefix("d16_").map_or((rest.as_str(), false), |rest| (rest, true));
        let (rest, high) = rest.strip_prefix("hi_").map_or((rest, false), |rest| (rest, true));
        let components = ["x", "xy", "xyz", "xyzw"].iter().position(|name| *name == rest)? as u8 + 1;
        Some(Self { components, chosen: (1 << components) - 1, halves, high, format: None })
    }

    /// That of an image.
    pub fn of_image(chosen: u8, halves: bool) -> Self {
        Self { components: chosen.count_ones() as u8, chosen, halves, high: false, format: None }
    }

    /// The numbers of its components in an element.
    pub fn each(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |component| self.chosen >> component & 1 == 1)
    }

    /// Registers that the data has.
    pub fn registers(self) -> u16 {
        u16::from(if self.halves { self.components.div_ceil(2) } else { self.components })
    }

    /// The half of a register that is all it moves (the upper one if true).
    pub fn half(self) -> Option<bool> {
        (self.halves && self.components == 1).then_some(self.high)
    }
}

/// Where a component in registers comes from ("DST_SEL").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    Zero,
    One,
    Component(u8),
}

impl Select {
    /// The four of a descriptor's last word, `None` where one is reserved.
    pub fn of(word: u32) -> Option<[Self; MOST]> {
        let mut all = IDENTITY;
        for (at, select) in all.iter_mut().enumerate() {
            *select = match word >> (3 * at) & 7 {
                0 => Self::Zero,
                1 => Self::One,
                component @ 4..=7 => Self::Component(component as u8 - 4),
                _ => return None,
            };
        }
        Some(all)
    }
}

/// "DST_SEL identity: X000, XY00, XYZ0 or XYZW".
pub(crate) const IDENTITY: [Select; MOST] =
    [Select::Component(0), Select::Component(1), Select::Component(2), Select::Component(3)];

impl Format {
    pub fn count(&self) -> usize {
        self.bits.iter().filter(|bits| **bits > 0).count()
    }

    pub fn bytes(&self) -> usize {
        self.bits.iter().map(|bits| usize::from(*bits)).sum::<usize>() / 8
    }

    /// What an element's address is a multiple of.
    pub fn alignment(&self) -> u64 {
        self.bytes().min(4) as u64
    }

    /// First bit of a component, and how many it has; `None` where the element has no such one.
    pub fn place(&self, component: usize) -> Option<(u32, u32)> {
        let bits = self.bits.get(component).filter(|bits| **bits > 0)?;
        let low = self.bits.iter().take(component).map(|bits| u32::from(*bits)).sum();
        Some((low, u32::from(*bits)))
    }

    pub fn is_integer(&self) -> bool {
        matches!(self.numeric, Numeric::Uint | Numeric::Sint)
    }

    /// Why an instruction with components of 16 bits, or a store, does not have this format; `None` if it does.
    pub fn refusal(&self, half: bool, stores: bool) -> Option<&'static str> {
        match self.numeric {
            _ if half && self.is_integer() && self.bits.contains(&32) => {
                Some("integers of 32 bits in halves of registers")
            }
            // How they are rounded is not documented.
            Numeric::Uscaled | Numeric::Sscaled if stores => Some("stores of floats as integers"),
            _ => None,
        }
    }
}

/// The number of a format in a descriptor's last word: of gfx9 the data format and, above it, the number format.
pub(crate) fn number(word: u32, generation: Generation) -> u8 {
    let bits = match generation {
        Generation::Rdna2 => word >> 12 & 0x7f,
        Generation::Rdna3 | Generation::Rdna4 => word >> 12 & 0x3f,
        Generation::Cdna1 | Generation::Cdna2 | Generation::Cdna3 | Generation::Cdna4 => {
            word >> 15 & 15 | (word >> 12 & 7) << 4
        }
    };
    bits as u8
}
