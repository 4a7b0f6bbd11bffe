//! Images: loads, stores and atomics of texels that lie one behind the other, in one to three dimensions and in arrays, their samples, and their
//! size. No other instruction on images is executed.

use super::operand::sgpr;
use super::{Decoded, Raw};
use crate::instruction::{Action, Address, Extent, ImageAddress, Memory, Sampling};
use crate::isa::At;
use crate::operations::memory::{Kind, Space, find};
use crate::typed::{MOST, Typed};

/// What an instruction on images of that name does, if it is executed in some dimensions: `dmask` and whether it has halves, and returns.
fn kind(name: &str, dmask: u8, halves: bool, returns: bool) -> Option<Kind> {
    if let Some(sample) = Sample::named(name) {
        return Some(Kind::Sample(sample.typed(dmask, halves)));
    }
    let typed = Typed::of_image(dmask, halves);
    Some(match name {
        "image_load" | "image_load_mip" => Kind::LoadTyped(typed),
        "image_store" | "image_store_mip" => Kind::StoreTyped(typed),
        "image_get_resinfo" => Kind::ImageSize(dmask),
        _ => {
            // The number of registers says how wide it is; an operand is behind the data of some.
            let wide = if name.contains("cmpswap") { dmask == 15 } else { dmask == 3 };
            let plain = atomic_named(name.strip_prefix("image_atomic_")?) + if wide { "_x2" } else { "" };
            match find(&format!("global_atomic_{plain}"))? {
                (_, Kind::Atomic { kind, bytes, .. }) if bytes == if wide { 8 } else { 4 } => {
                    Kind::Atomic { kind, bytes, returns }
                }
                _ => return None,
            }
        }
    })
}

/// What the name of a sample says.
struct Sample {
    gathers: bool,
    /// It has an offset, and a level or its least one behind the coordinates.
    moves: bool,
    leveled: bool,
}

impl Sample {
    /// `None` if it is not executed: comparisons with a depth (`_c`), texels of a row (`gather4h`), data that are not returned.
    ///
    /// An image has one level here, and a sampler one filter for all of them: a bias (`_b`), derivatives (`_d`, `_cd`, `_g16` of 16 bits), a level
    /// (`_l`, `_lz` for 0) and the least one (`_cl`) are the same.
    fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("image_")?;
        let (rest, gathers) = match name.strip_prefix("sample") {
            Some(rest) => (rest, false),
            None => (name.strip_prefix("gather4")?, true),
        };
        let mut sample = Self { gathers, moves: false, leveled: false };
        let mut parts = rest.split('_');
        if parts.next() != Some("") {
            return None;
        }
        for part in parts {
            match part {
                "o" => sample.moves = true,
                "l" | "cl" => sample.leveled = true,
                "b" | "d" | "cd" | "g16" | "lz" => {}
                _ => return None,
            }
        }
        Some(sample)
    }

    fn typed(&self, dmask: u8, halves: bool) -> Typed {
        let typed = Typed::of_image(dmask, halves);
        if self.gathers { Typed { components: MOST as u8, ..typed } } else { typed }
    }
}

/// gfx12's names of atomics on images as others have them: `add_uint`, `min_int`, `max_flt`.
fn atomic_named(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((plain, "flt")) => format!("{plain}_f32"),
        Some((plain @ ("min" | "max"), "int")) => format!("s{plain}"),
        Some((plain @ ("min" | "max"), "uint")) => format!("u{plain}"),
        Some((plain, "uint")) => plain.into(),
        _ => name.into(),
    }
}

/// Whether an instruction on images of that name is executed, if its dimensions are.
#[cfg(test)]
pub(super) fn knows(name: &str, target: &crate::target::Target) -> bool {
    !target.is_gfx9() && kind(name, 1, false, false).is_some()
}

/// Registers, and nothing behind them; `None` if there are more.
fn filled<const COUNT: usize>(registers: &[u16]) -> Option<[Option<u16>; COUNT]> {
    let mut filled = [None; COUNT];
    for (at, register) in registers.iter().enumerate() {
        *filled.get_mut(at)? = Some(*register);
    }
    Some(filled)
}

pub(super) fn image(raw: &Raw<'_>) -> Decoded {
    let (name, modifiers) = (raw.encoded.name, &raw.encoded.modifiers);
    let refused = |what: &str| Err(format!("{}: {what} are not executed", raw.text()));
    let Some(image) = modifiers.image else { return refused("images") };
    let returns = modifiers.glc || modifiers.th & 1 == 1;
    let Some(kind) = kind(name, image.dmask, image.d16, returns) else { return refused("such accesses to images") };
    let Some(dim) = image.dim else { return refused("images of gfx9 and ray tracing") };
    let Some(extent) = Extent::of(dim) else { return refused("images of cubes and of several samples") };
    if extent == Extent::Lines && matches!(kind, Kind::ImageSize(_)) {
        return refused("sizes of arrays of one dimension");
    }
    if modifiers.tfe || image.lwe {
        return refused("images that say whether texels are there");
    }
    // "If DMASK is 0, zeros are put in a register": nothing is asked for.
    if image.dmask == 0 {
        return refused("images without components");
    }
    let At::Vgpr(data, _) = raw.operand(0)?.at else { return Err(raw.text()) };
    let mut all = Vec::new();
    for at in 1..=usize::from(image.addresses) {
        let At::Vgpr(first, count) = raw.operand(at)?.at else { return Err(raw.text()) };
        all.extend(first..first + u16::from(count));
    }
    let descriptors = 1 + usize::from(image.addresses);
    let sample = Sample::named(name);
    let (mut leveled, mut sampling) = (name.ends_with("_mip"), None);
    if let Some(sample) = sample {
        if sample.gathers && !matches!(extent, Extent::Plane | Extent::Planes) {
            return refused("four texels of images other than of two dimensions");
        }
        if sample.gathers && !image.dmask.is_power_of_two() {
            return refused("four texels' components other than one");
        }
        leveled = sample.leveled;
        // Coordinates, and what is behind them, are the last ones.
        let count = extent.coordinates() + usize::from(leveled);
        let count = if image.a16 { count.div_ceil(2) } else { count };
        let coordinates = all.split_off(all.len().checked_sub(count).ok_or_else(|| raw.text())?);
        sampling = Some(Sampling {
            sampler: sgpr(raw.operand(descriptors + 1)?)?,
            ahead: filled(&all).ok_or_else(|| raw.text())?,
            moves: sample.moves,
            unnormalized: image.unorm,
            gathers: sample.gathers,
        });
        all = coordinates;
    }
    let bytes = if let Kind::Atomic { bytes, .. } = kind { bytes } else { 0 };
    let address = ImageAddress {
        descriptor: sgpr(raw.operand(descriptors)?)?,
        words: if image.r128 { 4 } else { 8 },
        registers: filled(&all).ok_or_else(|| raw.text())?,
        halves: image.a16,
        extent,
        leveled,
        sampling,
    };
    Ok(Action::Memory(Box::new(Memory {
        space: Space::Image,
        kind,
        address: Address::Image(address),
        offset: 0,
        second: 0,
        to: data,
        data,
        data2: 0,
        compare: data + u16::from(bytes / 4),
        sync: false,
        device: false,
        waits: false,
        transposed: None,
    })))
}
