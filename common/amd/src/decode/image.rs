//! Images: loads and stores of texels that lie one behind the other, in one or two dimensions, and their size. No other instruction on
//! images is executed.

use super::operand::sgpr;
use super::{Decoded, Raw};
use crate::instruction::{Action, Address, ImageAddress, Memory};
use crate::isa::At;
use crate::operations::memory::{Kind, Space};
use crate::typed::Typed;

/// Whether an instruction on images of that name is executed, if its dimensions are.
pub(super) fn knows(name: &str) -> bool {
    ["image_load", "image_store", "image_get_resinfo"].contains(&name)
}

pub(super) fn image(raw: &Raw<'_>) -> Decoded {
    let (name, modifiers) = (raw.encoded.name, &raw.encoded.modifiers);
    let refused = |what: &str| Err(format!("{}: {what} are not executed", raw.text()));
    let Some(image) = modifiers.image.filter(|_| knows(name)) else { return refused("images") };
    let dimensions = match image.dim {
        Some(dim @ (0 | 1)) => dim + 1,
        _ => return refused("images of other than one or two dimensions"),
    };
    if modifiers.tfe || image.lwe {
        return refused("images that say whether texels are there");
    }
    // "If DMASK is 0, zeros are put in a register": nothing is asked for.
    if image.dmask == 0 {
        return refused("images without components");
    }
    let At::Vgpr(data, _) = raw.operand(0)?.at else { return Err(raw.text()) };
    let At::Vgpr(first, count) = raw.operand(1)?.at else { return Err(raw.text()) };
    let second = match raw.operand(2)?.at {
        At::Vgpr(second, _) => Some(second),
        _ => (count > 1).then_some(first + 1),
    };
    let typed = Typed::of_image(image.dmask, image.d16);
    let kind = match name {
        "image_load" => Kind::LoadTyped(typed),
        "image_store" => Kind::StoreTyped(typed),
        _ => Kind::ImageSize(image.dmask),
    };
    let address = ImageAddress {
        descriptor: sgpr(raw.operand(1 + usize::from(image.addresses))?)?,
        words: if image.r128 { 4 } else { 8 },
        coordinates: [Some(first), second],
        halves: image.a16,
        dimensions,
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
        compare: 0,
        sync: false,
        transposed: None,
    })))
}
