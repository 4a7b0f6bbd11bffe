//! Which config files a model needs that are there, for which GPU and of which Triton.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::check::{NO_VERSION, said};
use crate::engine::Engine;
use crate::error::Error;
use crate::file::ConfigFile;
use crate::files::{Found, name_of};
use crate::name::{FileName, Layer};
use crate::shapes::Ranks;
use crate::space::LADDER;
use crate::spread::Spread;
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

/// A model over some ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deployment {
    /// As its config names it.
    pub model: String,
    /// Over how many ranks.
    #[serde(flatten)]
    pub ranks: Ranks,
}

/// A file that an engine asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: FileName,
    /// For which models.
    pub of: Vec<Deployment>,
}

impl Wanted {
    /// The files of all layers on all GPUs, each once.
    #[must_use]
    pub fn all(spread: &[Spread], engine: Engine, gpus: &[String]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (gpu, one) in gpus.iter().flat_map(|gpu| spread.iter().map(move |one| (gpu, one))) {
            let deployment = Deployment { model: one.model.clone(), ranks: one.ranks };
            for name in one.files(engine, gpu) {
                match all.iter_mut().find(|wanted| wanted.name == name) {
                    None => all.push(Self { name, of: vec![deployment.clone()] }),
                    Some(wanted) if wanted.of.contains(&deployment) => {}
                    Some(wanted) => wanted.of.push(deployment.clone()),
                }
            }
        }
        all
    }
}

/// A file that is needed, and what there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// As the loader builds it.
    pub name: String,
    /// For which models.
    #[serde(rename = "for")]
    pub of: Vec<Deployment>,
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

impl fmt::Display for Covered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, presence, path, triton, gaps, reason } = self;
        let deployment =
            |Deployment { model, ranks: Ranks { tp, ep } }: &Deployment| format!("{model} tp={tp} ep={ep}");
        let of: Vec<String> = of.iter().map(deployment).collect();
        write!(formatter, "{name} ({}): {presence}", of.join("; "))?;
        if let Some(triton) = triton {
            write!(formatter, ", Triton {triton}")?;
        }
        if !gaps.is_empty() && path.is_some() && reason.is_none() {
            let gaps: Vec<String> = gaps.iter().map(ToString::to_string).collect();
            write!(formatter, ", no rows for {}", gaps.join(", "))?;
        }
        path.as_ref().map_or(Ok(()), |path| write!(formatter, ": {}", path.display()))?;
        reason.as_ref().map_or(Ok(()), |reason| write!(formatter, ": {reason}"))
    }
}

/// Looks for files as the engine's loader does: by the name to the letter, in the order of `files`; SGLang's of the Triton at hand first, then
/// those of the newest. `strange` is a folder of no version, at which SGLang's loader stops before it comes to those of others.
#[must_use]
pub fn coverage(
    engine: Engine,
    files: &[Found],
    wanted: &[Wanted],
    triton: Option<&Version>,
    strange: Option<&Path>,
) -> Vec<Covered> {
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
    let strange = strange.filter(|_| engine.info().has_version_folders);
    let stops = |mut covered: Covered| match strange {
        Some(folder) if triton.is_none() || covered.triton.as_ref() != triton => {
            let reason = format!("{}: {NO_VERSION}", folder.display());
            covered.presence = Presence::Broken;
            Covered { path: None, triton: None, reason: Some(reason), ..covered }
        }
        _ => covered,
    };
    // Files for products are in no folders of versions.
    let one = |wanted: &Wanted| match wanted.name.layer {
        Layer::Moe { .. } => stops(covered(engine, wanted, &by_name, triton)),
        _ => covered(engine, wanted, &by_name, triton),
    };
    wanted.iter().map(one).collect()
}

fn covered(
    engine: Engine,
    Wanted { name, of }: &Wanted,
    by_name: &BTreeMap<String, Vec<&Found>>,
    triton: Option<&Version>,
) -> Covered {
    let name = name.build(engine);
    let none = Covered {
        name: name.clone(),
        of: of.clone(),
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
    Covered { presence, path, triton: made_with, gaps, ..none }
}

/// Which part of a file is wrong, and how.
fn reason(error: &Error) -> String {
    let place = if let Error::Content { place, .. } = error { place } else { "the file" };
    format!("{place}: {}", said(error))
}

#[cfg(test)]
mod tests {
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
        let ask_beside = |strange, engine, triton: Option<&str>| {
            let triton: Option<Version> = triton.map(|triton| triton.parse().unwrap());
            let wanted = [Wanted { name: name.clone(), of: Vec::new() }];
            let covered = coverage(engine, &files, &wanted, triton.as_ref(), strange).remove(0);
            (covered.presence, covered.triton.map(|version| version.to_string()), covered.gaps.len())
        };
        let ask = |engine, triton| ask_beside(None, engine, triton);
        let newest = Some("3.10.0".to_string());
        assert_eq!(ask(Engine::SGLANG, None), (Presence::Tuned, newest.clone(), 0));
        assert_eq!(ask(Engine::SGLANG, Some("3.10.0")), (Presence::Tuned, newest.clone(), 0));
        assert_eq!(ask(Engine::SGLANG, Some("3.6.0")), (Presence::Gaps, Some("3.6.0".to_string()), 4));
        assert_eq!(ask(Engine::SGLANG, Some("3.7.0")), (Presence::OtherTriton, newest, 0));
        // A blank in its name, and vLLM does not find it.
        assert_eq!(ask(Engine::VLLM, None), (Presence::Missing, None, 18));
        // SGLang's loader comes to its own version before it asks which others there are.
        let strange = Some(Path::new("configs/triton_abc"));
        assert_eq!(
            ask_beside(strange, Engine::SGLANG, Some("3.10.0")),
            (Presence::Tuned, Some("3.10.0".to_string()), 0)
        );
        assert_eq!(ask_beside(strange, Engine::SGLANG, Some("3.7.0")).0, Presence::Broken);
    }

    #[test]
    fn a_file_says_which_models_ask_for_it() {
        use crate::quantised::Storage;
        use crate::shapes::Model;

        let models = [32, 64].map(|hidden| Model::of_sizes([4, 32, hidden, 2], Storage::default()));
        let ranks = [Ranks { tp: 1, ep: 1 }, Ranks { tp: 2, ep: 1 }];
        let maker = crate::device::Maker::Nvidia;
        let spread = Spread::all(&models, Engine::VLLM, &ranks, maker, crate::spread::Further::default()).unwrap().0;
        let wanted = Wanted::all(&spread, Engine::VLLM, &["X".to_string()]);
        let told: Vec<String> =
            coverage(Engine::VLLM, &[], &wanted, None, None).iter().map(ToString::to_string).collect();
        let expected = [
            "E=4,N=32,device_name=X.json (4,32,32,2 tp=1 ep=1; 4,32,64,2 tp=1 ep=1): missing",
            "E=4,N=16,device_name=X.json (4,32,32,2 tp=2 ep=1; 4,32,64,2 tp=2 ep=1): missing",
        ];
        assert_eq!(told, expected);
    }
}
