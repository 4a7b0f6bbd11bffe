//! What `--device` names of the evaluators that are known here.

use bluefin_campaign::machine::evaluators::{Found, NamedEvaluators, ToolArgs};
use futures_util::future::{FutureExt as _, ready};

use crate::extensions::evaluators;

/// What `text` names, if it is none of this machine's devices.
pub fn named<'a>(text: &str, args: &'a ToolArgs) -> Option<Found<'a>> {
    let (name, target) = text.split_once(':').unwrap_or((text, ""));
    let named = evaluators().iter().find(|named| named.name == name)?;
    if target.is_empty() {
        return Some((named.find)(None, args));
    }
    Some(match target.parse() {
        Ok(target) => (named.find)(Some(target), args),
        Err(error) => ready(Err(crate::usage(format!("--device: {error}")))).boxed(),
    })
}

/// `miopen, miopen:<target>, for a GPU ...`
pub fn help() -> String {
    let told = evaluators()
        .iter()
        .filter_map(|NamedEvaluators { name, about, .. }| Some(format!("{name}, {name}:<target>, {}", (*about)?)));
    told.collect::<Vec<_>>().join("; ")
}
