//! The draft of a kernel spec for GPUs with what clang says of it: types, and what its file needs to compile.

use std::collections::VecDeque;
use std::path::Path;

use bluefin_kernel_spec::draft::{Draft, Kernel, Language, is_included};
use bluefin_kernel_spec::source_text;

use super::types::{self, Types};
use crate::error::Error;

/// Types that a template may be for where it does not compile for float.
const TYPES: [&str; 7] = ["int", "half", "half2", "float4", "float2", "float3", "double"];

/// Puts clang's types in the place of those that the text spells. A file of `folder` that does not compile alone gives way to one beside
/// it that includes it and does; templates that do not compile get other types. What is left to be told is returned.
///
/// # Errors
/// A machine that can start no compiler now. A file that does not compile is no error.
pub fn settle(draft: &mut Draft, folder: &Path) -> Result<Vec<String>, Error> {
    let mut found = resolve(draft)?;
    if !found.is_whole {
        if let Some((whole, of_whole)) = including(draft, folder)? {
            let mut remarks = of_whole.remarks;
            let (part, source) = (draft.source(), whole.source());
            remarks.push(format!("{part} does not compile alone: the spec's source is {source}, which includes it"));
            *draft = whole;
            return Ok(remarks);
        }
        if try_types(draft)? {
            found = resolve(draft)?;
        }
    }
    Ok(found.remarks)
}

/// Puts clang's types into a draft; those of the text stay where there is no clang.
fn resolve(draft: &mut Draft) -> Result<Types, Error> {
    let entries: Vec<String> = draft.kernels.iter().map(Kernel::instance).collect();
    match types::of_kernels(&draft.bundle(), draft.source(), draft.defines(), &entries) {
        Ok(found) => {
            found.types.iter().enumerate().for_each(|(index, types)| draft.set_types(index, types));
            found.layouts.iter().enumerate().for_each(|(index, layouts)| draft.set_layouts(index, layouts));
            Ok(found)
        }
        Err(error) if error.is_exhausted() => Err(error),
        Err(error) => {
            let remarks = vec![format!("types are as the text spells them: {error}")];
            Ok(Types { is_whole: true, remarks, ..Types::default() })
        }
    }
}

/// Files that are tried in the place of one that does not compile alone, at most.
const MAX_TRIED: usize = 12;

/// The draft of a file of `folder` that includes that of `draft`, itself or by way of others, and has what its kernels need.
fn including(draft: &Draft, folder: &Path) -> Result<Option<(Draft, Types)>, Error> {
    let kernels: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let mut known = vec![draft.source().to_string()];
    let mut waiting = VecDeque::from(sources_with(folder, draft.source()));
    while let Some((source, text)) = waiting.pop_front().filter(|_| known.len() <= MAX_TRIED) {
        if known.contains(&source) {
            continue;
        }
        waiting.extend(sources_with(folder, &source));
        known.push(source.clone());
        let mut whole = Draft::new(Language::Gpu, &source, &text, |name| read(&folder.join(name)).ok());
        whole.kernels.retain(|kernel| kernels.contains(&kernel.name.as_str()));
        if whole.kernels.is_empty() {
            continue;
        }
        let mut found = resolve(&mut whole)?;
        if !found.is_whole && try_types(&mut whole)? {
            found = resolve(&mut whole)?;
        }
        if found.is_whole {
            return Ok(Some((whole, found)));
        }
    }
    Ok(None)
}

/// The other files for GPUs in `folder` that include `name`, and their texts.
fn sources_with(folder: &Path, name: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sources = entries.filter_map(|entry| {
        let source = entry.file_name().into_string().ok()?;
        let is_other = source != name && Language::of(Path::new(&source)) == Some(Language::Gpu);
        let text = if is_other { read(&entry.path()).ok()? } else { return None };
        is_included(&text, name).then_some((source, text))
    });
    let mut sources: Vec<_> = sources.collect();
    sources.sort();
    sources
}

fn read(path: &Path) -> std::io::Result<String> {
    source_text(std::fs::read(path)?)
}

/// Looks for types with which the templates compile that do not compile with those that were taken. Whether a draft is another now.
fn try_types(draft: &mut Draft) -> Result<bool, Error> {
    let bundle = draft.bundle();
    let mut changed = false;
    for index in 0..draft.kernels.len() {
        let compiles = |draft: &Draft| {
            let entry: Vec<String> = draft.kernels.get(index).map(Kernel::instance).into_iter().collect();
            match types::of_kernels(&bundle, draft.source(), draft.defines(), &entry) {
                Err(error) if error.is_exhausted() => Err(error),
                found => Ok(found.is_ok_and(|found| found.is_whole)),
            }
        };
        let before = draft.kernels.get(index).cloned();
        if !draft.set_unknown(index, "float") || compiles(draft)? {
            continue;
        }
        let mut found = false;
        for one in TYPES {
            found = found || (draft.set_unknown(index, one) && compiles(draft)?);
        }
        changed |= found;
        if let (false, Some(before), Some(kernel)) = (found, before, draft.kernels.get_mut(index)) {
            *kernel = before;
        }
    }
    Ok(changed)
}
