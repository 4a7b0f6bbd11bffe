//! Which config files a model needs that are there, for which GPU and of which Triton.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::check::said;
use crate::engine::Engine;
use crate::error::Error;
use crate::file::ConfigFile;
use crate::files::{Found, name_of};
use crate::name::FileName;
use crate::space::LADDER;
use crate::version::Version;

/// Whether a file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// With a row for each batch size of the ladder, of the Triton at hand if both are known.
    Tuned,
    /// Made with another Triton than the one at hand.
    OtherTriton,
    /// Without rows for some batch sizes of the ladder, which the nearest row rules.
    Gaps,
    /// It can not be read: the engine stops when it loads it.
    Broken,
    /// There is none: the engine takes its default row.
    Missing,
}

impl fmt::Display for Presence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tuned => "tuned",
            Self::OtherTriton => "of another Triton",
            Self::Gaps => "with gaps",
            Self::Broken => "broken",
            Self::Missing => "missing",
        })
    }
}

/// A file that is needed, and what there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// As the loader builds it.
    pub name: String,
    /// Whether it is there.
    pub presence: Presence,
    /// The one that the loader takes.
    pub path: Option<PathBuf>,
    /// What it was made with.
    pub triton: Option<Version>,
    /// Batch sizes of the ladder without a row.
    pub gaps: Vec<i64>,
    /// Why it can not be read.
    pub reason: Option<String>,
}

/// Looks for files as the engine's loader does: by the name to the letter, in the order of `files`; SGLang's of the Triton at hand first, then
/// those of the newest.
#[must_use]
pub fn coverage(engine: Engine, files: &[Found], wanted: &[FileName], triton: Option<&Version>) -> Vec<Covered> {
    let mut by_name: BTreeMap<String, Vec<&Found>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.engine == engine) {
        by_name.entry(name_of(&file.path)).or_default().push(file);
    }
    for group in by_name.values_mut() {
        // A stable sort: without folders of versions it changes nothing.
        group.sort_by(|one, other| {
            let is_own = |file: &Found| triton.is_some() && file.folder.as_ref() == triton;
            is_own(other).cmp(&is_own(one)).then_with(|| other.folder.cmp(&one.folder))
        });
    }
    wanted.iter().map(|name| covered(engine, name, &by_name, triton)).collect()
}

fn covered(
    engine: Engine,
    name: &FileName,
    by_name: &BTreeMap<String, Vec<&Found>>,
    triton: Option<&Version>,
) -> Covered {
    let name = name.build(engine);
    let none = Covered {
        name: name.clone(),
        presence: Presence::Missing,
        path: None,
        triton: None,
        gaps: LADDER.to_vec(),
        reason: None,
    };
    let Some(found) = by_name.get(&name).and_then(|group| group.first()) else { return none };
    let path = Some(found.path.clone());
    let config = match &found.document {
        Ok(document) => ConfigFile::of_document(&found.path, document.clone(), engine).map_err(|error| reason(&error)),
        Err(error) => Err(reason(error)),
    };
    let config = match config {
        Ok(config) => config,
        Err(reason) => {
            let (triton, reason) = (found.folder.clone(), Some(reason));
            return Covered { presence: Presence::Broken, path, triton, reason, ..none };
        }
    };
    let made_with = found.folder.clone().or(config.version.clone());
    let gaps: Vec<i64> = LADDER.into_iter().filter(|size| config.row(*size).is_none()).collect();
    let is_other = triton.zip(made_with.as_ref()).is_some_and(|(at_hand, made_with)| at_hand != made_with);
    let presence = match (is_other, gaps.is_empty()) {
        (true, _) => Presence::OtherTriton,
        (false, false) => Presence::Gaps,
        (false, true) => Presence::Tuned,
    };
    Covered { name, presence, path, triton: made_with, gaps, reason: None }
}

/// Which part of a file is wrong, and how.
fn reason(error: &Error) -> String {
    let place = if let Error::Content { place, .. } = error { place } else { "the file" };
    format!("{place}: {}", said(error))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::Document;
    use crate::row::{GROUP, K, M, N, Row};

    fn found(path: &str, engine: Engine, sizes: &[i64]) -> Found {
        let row = Row::of([(M, 16), (N, 64), (K, 64), (GROUP, 1)]);
        let file = ConfigFile::of(engine, None, sizes.iter().map(|size| (*size, row.clone())));
        let path = Path::new(path);
        Found {
            path: path.to_path_buf(),
            engine,
            name: FileName::parse(&name_of(path)),
            folder: Version::of_folder(path),
            document: Document::parse(path, &file.text()),
        }
    }

    #[test]
    fn files_are_looked_for_as_the_loader_does() {
        let name = FileName::parse("E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json").unwrap();
        let sglang = |version: &str| format!("triton_{version}/{}", name.build(Engine::SGLANG));
        let files = [
            found(&sglang("3_2_0"), Engine::SGLANG, &LADDER),
            found(&sglang("3_10_0"), Engine::SGLANG, &LADDER),
            found(&sglang("3_6_0"), Engine::SGLANG, &LADDER[4..]),
            found(&name.build(Engine::SGLANG), Engine::VLLM, &LADDER),
        ];
        let ask = |engine, triton: Option<&str>| {
            let triton: Option<Version> = triton.map(|triton| triton.parse().unwrap());
            let covered = coverage(engine, &files, std::slice::from_ref(&name), triton.as_ref()).remove(0);
            (covered.presence, covered.triton.map(|version| version.to_string()), covered.gaps.len())
        };
        let newest = Some("3.10.0".to_string());
        assert_eq!(ask(Engine::SGLANG, None), (Presence::Tuned, newest.clone(), 0));
        assert_eq!(ask(Engine::SGLANG, Some("3.10.0")), (Presence::Tuned, newest.clone(), 0));
        assert_eq!(ask(Engine::SGLANG, Some("3.6.0")), (Presence::Gaps, Some("3.6.0".to_string()), 4));
        assert_eq!(ask(Engine::SGLANG, Some("3.7.0")), (Presence::OtherTriton, newest, 0));
        // A blank in its name, and vLLM does not find it.
        assert_eq!(ask(Engine::VLLM, None), (Presence::Missing, None, 18));
    }
}
