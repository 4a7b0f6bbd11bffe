//! What the hook wrote of a function and tuning key: `capture.json` in a folder of its own, beside sources and data.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use bluefin_common::arch;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::Error;
use crate::times::Template;

/// Version of `capture.json`.
const FORMAT: u32 = 1;
const DOCUMENT: &str = "capture.json";

/// A function with the arguments that a program launched it with, and what its autotuner may choose from.
#[derive(Clone, Debug, Deserialize)]
pub struct Captured {
    pub(crate) format: u32,
    /// Of the `@triton.jit` function.
    pub function: String,
    /// Where it was defined.
    pub file: String,
    pub line: u32,
    /// Version that the program ran with.
    pub triton: String,
    pub(crate) target: Json,
    /// It has no autotuner.
    #[serde(default)]
    pub(crate) jit: bool,
    /// The tuning key: integers, bools, texts, types as text.
    pub(crate) key: Vec<Json>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) launch_options: BTreeMap<String, Typed>,
    pub(crate) configs: Vec<Config>,
    pub(crate) chosen: String,
    pub(crate) widened: Option<Widened>,
    /// Why there is no `widened`.
    pub not_widened: Option<String>,
    /// Outputs that no config is compared by, with the param that their length follows from.
    #[serde(default)]
    pub not_compared: BTreeMap<String, String>,
    /// Configs of the list that write other partial sums than the one that ran, of which nothing says whether they are right.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Bytes of memory whose contents follow from the config, so that nobody compares them.
    #[serde(default)]
    pub(crate) workspace: u64,
    /// Digest of the function and of all that it uses, by Triton.
    pub(crate) function_digest: String,
    pub(crate) source: String,
    pub(crate) files: Vec<String>,
    pub(crate) cache: Cache,
    /// The folder that it is in.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A value with its kind in Python.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Typed {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    None(bool),
    Dtype(String),
    Tuple(Vec<Typed>),
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Argument {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: ArgumentKind,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum ArgumentKind {
    /// A view of a buffer, that begins at an element of it.
    Tensor {
        buffer: String,
        offset: u64,
        shape: Vec<u64>,
    },
    /// A tensor descriptor, of a buffer from an element of it on.
    Descriptor {
        buffer: String,
        offset: u64,
        shape: Vec<u64>,
        strides: Vec<u64>,
        /// What is outside of it is no number.
        nan: bool,
        tf32: bool,
    },
    /// Beyond 64 bits with a sign: up to 64 without.
    Int {
        value: serde_json::Number,
    },
    Float {
        value: f64,
    },
    Bool {
        value: bool,
    },
    None,
    /// The memory that nobody compares.
    Workspace,
    Constexpr {
        value: Typed,
    },
    /// Set by a config, or computed from it.
    Param,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    /// As Triton calls it.
    pub(crate) dtype: String,
    pub(crate) elements: u64,
    pub(crate) role: String,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// Of what was written, after the launch.
    pub(crate) rms: Option<f64>,
    pub(crate) data: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    pub(crate) kwargs: BTreeMap<String, Typed>,
    pub(crate) options: BTreeMap<String, Typed>,
    pub(crate) computed: BTreeMap<String, Typed>,
    pub(crate) grid: [u64; 3],
    /// Params that the grid was computed from.
    pub(crate) read: Vec<String>,
    /// Of tensor descriptors, by the argument's name.
    #[serde(default)]
    pub(crate) blocks: BTreeMap<String, Vec<u64>>,
    pub(crate) text: String,
}

/// The neighbourhood of the configs: values of each param, and the grid for each case of those that it depends on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Widened {
    pub(crate) params: BTreeMap<String, Vec<Typed>>,
    pub(crate) cases: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) values: BTreeMap<String, Typed>,
    pub(crate) grid: [u64; 3],
    /// Of tensor descriptors, by the argument's name.
    #[serde(default)]
    pub(crate) blocks: BTreeMap<String, Vec<u64>>,
}

/// Where Triton looks for its choice, or why it does not.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Cache {
    pub(crate) folder: Option<String>,
    /// The folder on GPUs other than the program's, by architecture.
    #[serde(default)]
    pub(crate) elsewhere: BTreeMap<String, String>,
    pub(crate) file: Option<String>,
    pub(crate) why: Option<String>,
    /// It is a kernel of Inductor's.
    #[serde(default)]
    pub(crate) inductor: Option<Inductor>,
    /// It is a template of Inductor's, beside which there are other choices.
    #[serde(default)]
    pub(crate) template: Option<Template>,
}

/// Where PyTorch's Inductor looks for its choice, and what has to stand there: `torch._inductor.runtime.autotune_cache`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Inductor {
    /// In its cache.
    pub(crate) folder: String,
    pub(crate) file: String,
    /// Digest of the configs that it chooses from.
    pub(crate) configs_hash: String,
    /// Name of the file that it wrote the kernel into, made of what is in it.
    pub(crate) source: String,
    /// It takes a config that is none of its list: it looks around its choice itself (`coordinate_descent_tuning`).
    pub(crate) any_config: bool,
}

/// What one process of the program did.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Process {
    /// By name of the capture.
    pub kernels: BTreeMap<String, Counts>,
    /// What could not be captured.
    pub left: Vec<Left>,
}

/// How often a kernel was launched, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Counts {
    pub calls: u64,
    /// Milliseconds of a launch, where a device said so.
    pub ms: Option<f64>,
}

/// A function that could not be captured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Left {
    pub function: String,
    /// File and line.
    pub at: String,
    pub reason: String,
}

impl Captured {
    /// Reads what is in a folder that the hook put in place.
    ///
    /// # Errors
    /// A document that is not there, or none of its kind.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(DOCUMENT);
        let text = std::fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let captured = serde_json::from_str::<Self>(&text);
        let mut captured = captured.map_err(|error| Error::Document {
            path: path.clone(),
            reason: error.to_string(),
            expected: "what `bluefin capture --triton` wrote",
        })?;
        if captured.format != FORMAT {
            return Err(Error::Format { path, found: captured.format, expected: FORMAT });
        }
        let cache = &captured.cache;
        let inductor = cache.inductor.iter().flat_map(|inductor| [&inductor.folder, &inductor.file]);
        let triton = [&cache.folder, &cache.file].into_iter().flatten().chain(cache.elsewhere.values());
        let template = cache.template.iter().flat_map(|template| [&template.folder, &template.file]).flatten();
        let places = triton.chain(inductor).chain(template);
        // Files will be written there: whose capture it is may be anybody's.
        if let Some(found) = { places }.find(|name| !is_plain(name)) {
            let reason = format!("cache: found {found:?}");
            return Err(Error::Document { path, reason, expected: "the name of a file" });
        }
        captured.folder = folder.to_path_buf();
        Ok(captured)
    }

    /// All that are in the folders of `folder`, by name.
    ///
    /// # Errors
    /// As for one of them; none is there.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, Error> {
        let entries = std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))?;
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| Error::file(folder, source))?.path();
            if path.join(DOCUMENT).is_file() {
                folders.push(path);
            }
        }
        if folders.is_empty() {
            return Err(Error::Nothing { path: folder.to_path_buf() });
        }
        folders.sort();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    /// Its name: that of its folder, and of its kernel spec.
    #[must_use]
    pub fn name(&self) -> String {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Constexprs that no config sets.
    pub(crate) fn constants(&self) -> BTreeMap<String, Typed> {
        let of = |argument: &Argument| match &argument.kind {
            ArgumentKind::Constexpr { value } => Some((argument.name.clone(), value.clone())),
            _ => None,
        };
        self.arguments.iter().filter_map(of).collect()
    }

    /// The architecture that the program ran on, as compilers name it.
    #[must_use]
    pub fn architecture(&self) -> String {
        let text = |part: &str| match self.target.get(part) {
            Some(Json::String(text)) => text.clone(),
            other => other.map(Json::to_string).unwrap_or_default(),
        };
        arch::of_triton(&text("backend"), &text("arch"))
    }

    /// Folder and file of Triton's cache with its choice on GPUs of an architecture, by that.
    pub(crate) fn places(&self) -> BTreeMap<String, (&str, &str)> {
        let Some(file) = self.cache.file.as_deref() else { return BTreeMap::new() };
        let elsewhere = self.cache.elsewhere.iter().map(|(architecture, folder)| (architecture.clone(), folder));
        let own = self.cache.folder.iter().map(|folder| (self.architecture(), folder));
        elsewhere.chain(own).map(|(architecture, folder)| (architecture, (folder.as_str(), file))).collect()
    }

    /// Where Triton keeps its choices in the folder `cache`, by architecture. None: it keeps none.
    #[must_use]
    pub fn places_in(&self, cache: &Path) -> BTreeMap<String, PathBuf> {
        let place = |(folder, file): (&str, &str)| cache.join(folder).join(file);
        self.places().into_iter().map(|(architecture, of)| (architecture, place(of))).collect()
    }

    /// Configs that the program's autotuner may choose from.
    #[must_use]
    pub fn configs(&self) -> usize {
        self.configs.len()
    }
}

/// Whether a name is that of one file, and leads nowhere else.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

impl Process {
    /// What the processes of a program left in `folder`, added up, and takes it away.
    ///
    /// # Errors
    /// A folder that can not be read. What one process did not finish is left out.
    pub fn take(folder: &Path) -> Result<Self, Error> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))? {
            let path = entry.map_err(|source| Error::file(folder, source))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(".part-") {
                // Of a process that was killed while it wrote.
                let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            } else if name.starts_with(".process-") {
                let one = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Self>(&text).ok());
                all.add(one.unwrap_or_default());
                let _ = std::fs::remove_file(&path);
            }
        }
        all.left.sort();
        all.left.dedup();
        Ok(all)
    }

    fn add(&mut self, other: Self) {
        for (name, counts) in other.kernels {
            let known = self.kernels.entry(name).or_default();
            known.calls += counts.calls;
            known.ms = match (known.ms, counts.ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        self.left.extend(other.left);
    }
}
