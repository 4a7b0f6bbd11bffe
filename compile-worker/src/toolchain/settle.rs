//! The draft of a kernel spec for GPUs with what clang says of it: types, and what its file needs to compile.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use bluefin_kernel_spec::draft::{Declared, Draft, Kernel, Language, is_included};
use bluefin_kernel_spec::text_beside;

use super::project::Project;
use super::types::{self, Types};
use crate::error::Error;

/// Types that a template may be for where it does not compile for float.
const TYPES: [&str; 7] = ["int", "half", "half2", "float4", "float2", "float3", "double"];
/// Types that are tried before, which stand beside the kernel where a macro launches it.
const MOST_BESIDE: usize = 2;
/// What one of them may be besides, which stands for a function, and how many of them are tried.
const FUNCTION: &str = "bluefin_function";
const MOST_FUNCTIONS: usize = 4;

/// Kernels that are compiled by themselves, to see whether headers are worth their errors.
const MOST_COMPILED: usize = 4;

/// Other files and types are tried for so long: a unit of many headers takes seconds each time.
const MOST_TRYING: Duration = Duration::from_secs(120);

/// Puts clang's types in the place of those that the text spells. A file of `folder` that does not compile alone gets headers of other folders of its
/// project, or gives way to one beside it that includes it and does compile; templates that do not compile get other types. What is left to be
/// told is returned.
///
/// # Errors
/// A machine that can start no compiler now. A file that does not compile is no error.
pub fn settle(draft: &mut Draft, folder: &Path) -> Result<Vec<String>, Error> {
    let project = Project::of(folder);
    let begun = Instant::now();
    learn(draft, &project);
    let mut found = resolve(draft)?;
    let mut behind = None;
    if !found.is_whole
        && let Some((mut other, mut of_other)) = with_headers(draft, folder, &project)?
    {
        define(&mut other, &mut of_other)?;
        if of_other.rank() >= found.rank() {
            (*draft, found) = (other, of_other);
        } else {
            behind = Some((other, of_other));
        }
    }
    if !found.is_whole {
        define(draft, &mut found)?;
    }
    if !found.is_whole {
        if let Some((whole, of_whole)) = including(draft, folder, &project, begun)? {
            let mut remarks = of_whole.remarks;
            let (part, source) = (draft.source(), whole.source());
            remarks.push(format!("{part} does not compile alone: the spec's source is {source}, which includes it"));
            *draft = whole;
            return Ok(remarks);
        }
        let (is_other, unknown) = try_types(draft, begun)?;
        if is_other {
            found = resolve(draft)?;
        }
        found.remarks.extend(unknown);
    }
    // What no kernel compiles without is not missing because it brings further errors along.
    if let Some((mut other, mut of_other)) = behind.filter(|_| !found.is_whole) {
        let (is_other, unknown) = try_types(&mut other, begun)?;
        if is_other {
            of_other = resolve(&mut other)?;
        }
        if of_other.is_whole || compiling(&other, begun)? >= compiling(draft, begun)? {
            of_other.remarks.extend(unknown);
            (*draft, found) = (other, of_other);
        } else {
            found
                .remarks
                .push("its project has more of these files, with which fewer of its kernels compile".to_string());
        }
    }
    if !found.is_whole && begun.elapsed() > MOST_TRYING {
        let seconds = MOST_TRYING.as_secs();
        found.remarks.push(format!("types and headers were tried for {seconds}s, and not all that there are"));
    }
    Ok(found.remarks)
}

/// Macros that are defined one after the other, at most.
const MOST_DEFINED: usize = 4;

/// Defines macros that a build does, where something is under them alone: `found`, which is what clang says of `draft`, is no worse by that.
fn define(draft: &mut Draft, found: &mut Types) -> Result<(), Error> {
    let mut said = Vec::new();
    let around = draft.chosen_around();
    if !around.is_empty() {
        said.push(chosen(&around, "around all of its kernels"));
    }
    for _ in 0..MOST_DEFINED {
        if let Some((file, line)) = found.at.clone().filter(|_| !found.is_whole) {
            let mut other = draft.clone();
            match other.define_against(&file, line) {
                Declared::Nowhere => {}
                Declared::Under(names) => {
                    let of_other = resolve(&mut other)?;
                    if of_other.rank() > found.rank() {
                        said.push(defined(&names, &format!("without which {file} says that it is not to be compiled")));
                        (*draft, *found) = (other, of_other);
                    }
                }
                Declared::Chosen(names) => said.push(chosen(&names, &format!("one of which {file} wants"))),
            }
        }
        let Some(unknown) = found.unknown.clone().filter(|_| !found.is_whole) else { break };
        let mut other = draft.clone();
        let names = match other.define_for(&unknown) {
            Declared::Nowhere => break,
            Declared::Under(names) => names,
            Declared::Chosen(names) => {
                said.push(chosen(&names, &format!("under which {unknown} is declared")));
                break;
            }
        };
        let of_other = resolve(&mut other)?;
        if of_other.rank() < found.rank() || of_other.unknown.as_ref() == Some(&unknown) {
            break;
        }
        said.push(defined(&names, &format!("under which {unknown} is declared")));
        (*draft, *found) = (other, of_other);
    }
    let mut seen = BTreeSet::new();
    said.retain(|one| seen.insert(one.clone()));
    found.remarks.extend(said);
    Ok(())
}

/// What is told of macros that are defined.
fn defined(names: &[String], why: &str) -> String {
    format!("{} {} defined, {why}", names.join(" "), if names.len() == 1 { "is" } else { "are" })
}

/// What is told of macros none of which is.
fn chosen(names: &[String], what: &str) -> String {
    format!("none of the macros is defined that a build has to choose, {what}: {}", names.join(", "))
}

/// How many of the first kernels of a draft compile by themselves.
fn compiling(draft: &Draft, begun: Instant) -> Result<usize, Error> {
    let mut count = 0;
    for at in (0..draft.kernels.len().min(MOST_COMPILED)).take_while(|_| begun.elapsed() < MOST_TRYING) {
        count += usize::from(compiles(draft, at)? == Compiled::Whole);
    }
    Ok(count)
}

/// What came of compiling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compiled {
    Whole,
    /// With other types it may.
    Not,
    /// With no types.
    Never,
}

/// Whether a kernel of a draft compiles by itself.
fn compiles(draft: &Draft, kernel: usize) -> Result<Compiled, Error> {
    // What it needs is reached by its name.
    let alone = draft.alone(kernel);
    let entry: Vec<String> = alone.kernels.iter().map(Kernel::instance).collect();
    match types::of_kernels(&alone.bundle(), alone.source(), alone.defines(), &entry) {
        Err(error) if error.is_exhausted() => Err(error),
        Ok(found) if found.is_whole => Ok(Compiled::Whole),
        Ok(found) if found.is_fixed => Ok(Compiled::Never),
        _ => Ok(Compiled::Not),
    }
}

/// What other files of the project say of the launches of a draft's kernels.
fn learn(draft: &mut Draft, project: &Project) {
    let open: Vec<usize> = draft.unlaunched().collect();
    for at in open {
        let Some(name) = draft.kernels.get(at).map(|kernel| kernel.plain_name().to_string()) else { continue };
        let texts = project.launching(draft.source(), &name);
        draft.learn_launches(at, &texts);
    }
}

/// The same draft with what its files include of other folders; `None` where that is nothing.
fn with_headers(draft: &Draft, folder: &Path, project: &Project) -> Result<Option<(Draft, Types)>, Error> {
    let Some(text) = read(folder, draft.source()) else { return Ok(None) };
    let mut other = whole(draft.source(), &text, folder, project);
    if other.includes() == draft.includes() {
        return Ok(None);
    }
    let known = |kernel: &Kernel| draft.kernels.iter().any(|known| is_same(&kernel.name, &known.name));
    other.kernels.retain(known);
    // A header may have a macro that hides one.
    if other.kernels.len() < draft.kernels.len() {
        return Ok(None);
    }
    learn(&mut other, project);
    let found = resolve(&mut other)?;
    Ok(Some((other, found)))
}

/// Whether a kernel is the one that a file alone calls `bare`: a header may have the macro that opens its namespace.
fn is_same(name: &str, bare: &str) -> bool {
    name.strip_suffix(bare).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// The draft of a file of `folder` with headers of other folders.
fn whole(source: &str, text: &str, folder: &Path, project: &Project) -> Draft {
    let beside = |name: &str| read(folder, name);
    Draft::in_project(Language::Gpu, source, text, beside, |from, include| project.header(from, include))
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
fn including(draft: &Draft, folder: &Path, project: &Project, begun: Instant) -> Result<Option<(Draft, Types)>, Error> {
    let kernels: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let mut known = vec![draft.source().to_string()];
    let mut waiting = VecDeque::from(sources_with(folder, draft.source()));
    while let Some((source, text)) =
        waiting.pop_front().filter(|_| known.len() <= MAX_TRIED && begun.elapsed() < MOST_TRYING)
    {
        if known.contains(&source) {
            continue;
        }
        waiting.extend(sources_with(folder, &source));
        known.push(source.clone());
        let mut whole = whole(&source, &text, folder, project);
        whole.kernels.retain(|kernel| kernels.iter().any(|known| is_same(&kernel.name, known)));
        if whole.kernels.is_empty() {
            continue;
        }
        learn(&mut whole, project);
        let mut found = resolve(&mut whole)?;
        if !found.is_whole && !found.is_fixed && try_types(&mut whole, begun)?.0 {
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
        let text = if is_other { read(folder, &source)? } else { return None };
        is_included(&text, name).then_some((source, text))
    });
    let mut sources: Vec<_> = sources.collect();
    sources.sort();
    sources
}

fn read(folder: &Path, name: &str) -> Option<String> {
    text_beside(folder, name).ok().flatten()
}

/// Looks for types with which the templates compile that do not compile with those that were taken. Whether a draft is another now, and what is to
/// be told of those that compile with none.
fn try_types(draft: &mut Draft, begun: Instant) -> Result<(bool, Vec<String>), Error> {
    let (mut changed, mut unknown) = (false, Vec::new());
    for index in 0..draft.kernels.len() {
        let compiles = |draft: &Draft| {
            if begun.elapsed() > MOST_TRYING {
                return Ok(Compiled::Never);
            }
            compiles(draft, index)
        };
        let before = draft.kernels.get(index).cloned();
        let is_unknown = draft.set_unknown(index, "float");
        let mut first = compiles(draft)?;
        if first == Compiled::Whole || !is_unknown && !draft.forget_types(index) {
            continue;
        }
        if !is_unknown && draft.set_unknown(index, "float") {
            first = compiles(draft)?;
        }
        let mut found = first == Compiled::Whole;
        // What fails without an instance fails with all of them.
        let is_open = first == Compiled::Not;
        let compiles = |draft: &Draft| Ok::<_, Error>(is_open && compiles(draft)? == Compiled::Whole);
        let beside = draft.types_beside(index);
        for one in beside.iter().map(String::as_str).take(MOST_BESIDE).chain(TYPES) {
            found = found || (draft.set_unknown(index, one) && compiles(draft)?);
        }
        for at in 0..MOST_FUNCTIONS {
            if found || !draft.set_unknown(index, "float") || !draft.set_one_unknown(index, at, FUNCTION) {
                break;
            }
            found = compiles(draft)?;
        }
        // Or several of them are: what a row's elements become, and how they are joined.
        for count in 2..MOST_FUNCTIONS {
            let is_function = |draft: &mut Draft| (0..count).all(|at| draft.set_one_unknown(index, at, FUNCTION));
            found = found || draft.set_unknown(index, "float") && is_function(draft) && compiles(draft)?;
        }
        changed |= found;
        if let (false, Some(before), Some(kernel)) = (found, before, draft.kernels.get_mut(index)) {
            let types = before.template.iter().filter(|one| one.number.is_none() && !one.is_said);
            let names: Vec<&str> = types.map(|one| one.name.as_str()).collect();
            if !names.is_empty() {
                unknown.push(format!(
                    "{} is a template of types that nothing here says, and compiles with none that was tried: name {} in its entry",
                    before.name,
                    names.join(" ")
                ));
            }
            *kernel = before;
        }
    }
    Ok((changed, unknown))
}
