//! A kernel spec of what was captured: `spec.toml`, whose space is the program's own list of configs, and `widened.toml`, whose space is
//! what lies around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::captured::{ArgumentKind, Buffer, Captured, Config, Typed};
use crate::descriptor::{Blocks, descriptor};
use crate::error::Error;
use crate::grid;
use crate::text::{constant, float, point, quoted};
use crate::words::Words;

/// The file of the spec whose space is the program's own list.
pub const LISTED: &str = "spec.toml";
/// That of the spec whose space is what lies around it.
pub const WIDENED: &str = "widened.toml";
/// Numbers from it on stand for infinity: nothing is compared to a part of them.
const LARGEST: f64 = 1e30;
/// Characters of a solver's name.
const SOLVER: usize = 64;
/// Launch options that nobody sets where all configs have these values.
const USUAL: [(&str, Typed); 3] =
    [("num_ctas", Typed::Int(1)), ("maxnreg", Typed::None(true)), ("ir_override", Typed::None(true))];

/// Why no spec can say what was captured.
type Refused = String;

impl Captured {
    /// Writes its kernel specs beside it. Returns why there is none, where there is none, and why the list can not be widened.
    ///
    /// # Errors
    /// A file that can not be written.
    pub fn write_specs(&self) -> Result<Result<(), String>, Error> {
        let path = self.folder.join(LISTED);
        match self.listed() {
            Ok(text) => std::fs::write(&path, text).map_err(|source| Error::file(&path, source))?,
            Err(reason) => return Ok(Err(reason)),
        }
        if let Some(text) = self.widened_spec() {
            let path = self.folder.join(WIDENED);
            std::fs::write(&path, text).map_err(|source| Error::file(&path, source))?;
        }
        Ok(Ok(()))
    }

    fn listed(&self) -> Result<String, Refused> {
        let mut text = self.head()?;
        let words = Words::of(self);
        let worded = |config: &Config| -> BTreeMap<String, Typed> {
            let point = self.point(config).into_iter();
            point.map(|(name, value)| (name.clone(), words.worded(&name, &value))).collect()
        };
        let points: Vec<BTreeMap<String, Typed>> = self.configs.iter().map(worded).collect();
        let names: BTreeSet<&String> = points.iter().flat_map(BTreeMap::keys).collect();
        let names: Vec<&String> = names
            .into_iter()
            .filter(|name| {
                !USUAL.iter().any(|(usual, value)| {
                    usual == name && points.iter().all(|point| point.get(*name).is_none_or(|given| given == value))
                })
            })
            .collect();
        // The program's own choice is the default.
        let chosen = self.configs.iter().position(|config| config.text == self.chosen).unwrap_or(0);
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by_key(|at| *at != chosen);
        text.push_str("points = [\n");
        for given in order.into_iter().filter_map(|at| points.get(at)) {
            let of = |name: &&String| {
                let value = given.get(*name).unwrap_or(&Typed::None(true));
                let value = point(value).ok_or_else(|| format!("a config sets {name} to {}", constant(value)))?;
                Ok(format!("{name} = {value}"))
            };
            let values = names.iter().map(of).collect::<Result<Vec<_>, Refused>>()?;
            let _ = writeln!(text, "  {{ {} }},", values.join(", "));
        }
        text.push_str("]\n");
        let cases = |dimension: usize| -> grid::Cases {
            let of = |config: &Config| {
                let given = worded(config);
                let read = config.read.iter().filter_map(|name| Some((name.clone(), given.get(name)?.clone())));
                (read.collect(), config.grid.get(dimension).copied().unwrap_or(1))
            };
            self.configs.iter().map(of).collect()
        };
        let blocks = self.configs.iter().map(|config| (worded(config), config.blocks.clone())).collect();
        text.push_str(&self.rest(cases, &names, &words, &blocks)?);
        Ok(text)
    }

    fn widened_spec(&self) -> Option<String> {
        let widened = self.widened.as_ref()?;
        let mut text = self.head().ok()?;
        let words = Words::of(self);
        let mut params: BTreeMap<String, Vec<Typed>> = widened.params.clone();
        let first = self.configs.iter().find(|config| config.text == self.chosen).or(self.configs.first())?;
        for (name, values) in [
            ("num_warps", around(self.options("num_warps"), 1, 16, true)),
            ("num_stages", around(self.options("num_stages"), 1, 7, false)),
        ] {
            params.insert(name.to_string(), values);
        }
        let given = self.point(first);
        let mut blocks = String::new();
        for (name, values) in &params {
            let values: Vec<Typed> = values.iter().map(|value| words.worded(name, value)).collect();
            // A param has values of one kind.
            let kinds: Vec<_> = values.iter().map(std::mem::discriminant).collect();
            if kinds.windows(2).any(|pair| pair.first() != pair.last()) {
                return None;
            }
            let values = values.iter().map(point).collect::<Option<Vec<_>>>()?;
            let default = point(&words.worded(name, given.get(name)?))?;
            let _ = write!(
                blocks,
                "  [[solver.param]]\n  name = {}\n  values = [{}]\n  default = {default}\n",
                quoted(name),
                values.join(", ")
            );
        }
        let cases = |dimension: usize| -> grid::Cases {
            let of = |case: &crate::captured::Case| {
                let values = case.values.iter().map(|(name, value)| (name.clone(), words.worded(name, value)));
                (values.collect(), case.grid.get(dimension).copied().unwrap_or(1))
            };
            widened.cases.iter().map(of).collect()
        };
        let names: Vec<&String> = params.keys().collect();
        // Constexprs that a rule of the program's computes are the same for all, or it would not be widened.
        let values = |case: &crate::captured::Case| {
            case.values.iter().map(|(name, value)| (name.clone(), words.worded(name, value))).collect()
        };
        let of_cases = widened.cases.iter().map(|case| (values(case), case.blocks.clone())).collect();
        let rest = self.rest(cases, &names, &words, &of_cases).ok()?;
        let (constants, launch) = rest.split_once("  [[solver.launch]]")?;
        let _ = write!(text, "{constants}{blocks}  [[solver.launch]]{launch}");
        Some(text)
    }

    fn options(&self, name: &str) -> Vec<i64> {
        let of = |config: &Config| match config.options.get(name) {
            Some(Typed::Int(value)) => Some(*value),
            _ => None,
        };
        self.configs.iter().filter_map(of).collect()
    }

    /// All that a config sets, what is computed from it, and what the program sets besides.
    pub(crate) fn point(&self, config: &Config) -> BTreeMap<String, Typed> {
        let parts = [&self.launch_options, &config.options, &config.kwargs, &config.computed];
        parts.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Up to what tells the spaces apart.
    fn head(&self) -> Result<String, Refused> {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "# {} of {}:{}, captured from Triton {}. Key: {}\nname = {}\nproblem = \"kernel\"\ntoolchain = \"triton\"\n\
             targets = [\"nvidia\", \"amd\"]\nsource = {}\nincludes = [{}]\nreference = {}",
            self.function,
            self.file.replace(char::is_control, " "),
            self.line,
            self.triton,
            serde_json::Value::from(self.key.clone()),
            quoted(&self.name()),
            quoted(&self.source),
            self.files
                .iter()
                .filter(|file| **file != self.source)
                .map(|file| quoted(file))
                .collect::<Vec<_>>()
                .join(", "),
            quoted(self.solver()),
        );
        for (output, param) in &self.not_compared {
            let _ =
                writeln!(text, "# {output} has a part for each {param}: it is scratch memory here, and not compared.");
        }
        for config in &self.left_out {
            let config = config.replace(char::is_control, " ");
            let _ = writeln!(text, "# Left out, with other partial sums than the config that ran: {config}.");
        }
        for buffer in &self.buffers {
            text.push_str(&buffer.block()?);
        }
        // Products of matrices may be of fewer bits (TF32), and sums of what is loaded are of its type.
        let is_whole = |buffer: &Buffer| !matches!(tolerance(&buffer.dtype), Some(share) if share > FP32);
        let is_plain = !self.multiplies_matrices() && self.buffers.iter().all(is_whole);
        let of_all = self.buffers.iter().filter_map(|buffer| tolerance(&buffer.dtype)).fold(1e-4, f64::max);
        let mut written: BTreeMap<&str, f64> = BTreeMap::new();
        for buffer in self.buffers.iter().filter(|buffer| buffer.role != "input") {
            let size = buffer.rms.filter(|rms| *rms > 0.0 && *rms < LARGEST).unwrap_or(1.0);
            let known = written.entry(data_type(&buffer.dtype).ok_or_else(|| buffer.unknown())?).or_insert(size);
            *known = known.min(size);
        }
        if written.is_empty() {
            return Err("it writes nothing that can be compared".to_string());
        }
        for (name, size) in written {
            let exact = !name.starts_with("FP") && !name.starts_with("BF");
            let precision = match name {
                "FP32" if is_plain => PLAIN_FP32,
                "FP64" if is_plain => PLAIN_FP64,
                _ => of_all,
            };
            let (absolute, relative) = if exact { (0.0, 0.0) } else { (precision * size, precision) };
            let _ =
                writeln!(text, "\n[tolerance.{name}]\nabsolute = {}\nrelative = {}", float(absolute), float(relative));
        }
        let _ = writeln!(text, "\n[[solver]]\nname = {}\nalgorithm = \"Direct\"", quoted(self.solver()));
        if self.workspace > 0 {
            let _ = writeln!(text, "workspace = {}", self.workspace);
        }
        Ok(text)
    }

    /// Whether the sources say that the function, or what it calls, multiplies matrices; those that can not be read may.
    fn multiplies_matrices(&self) -> bool {
        let text = |file: &String| std::fs::read_to_string(self.folder.join(file));
        self.files
            .iter()
            .any(|file| text(file).map_or(true, |text| text.contains("dot(") || text.contains("dot_scaled(")))
    }

    /// The function's name, as far as a solver's may be long.
    fn solver(&self) -> &str {
        self.function.get(..SOLVER).unwrap_or(&self.function)
    }

    /// Behind the space: constants, words and the launch.
    fn rest(
        &self,
        cases: impl Fn(usize) -> grid::Cases,
        params: &[&String],
        words: &Words,
        blocks: &Blocks,
    ) -> Result<String, Refused> {
        let mut text = String::new();
        let mut constants = BTreeMap::new();
        for argument in &self.arguments {
            match &argument.kind {
                ArgumentKind::Constexpr { value } => drop(constants.insert(&argument.name, value)),
                ArgumentKind::Param if !params.contains(&&argument.name) => {
                    let computed = self.configs.first().and_then(|config| config.computed.get(&argument.name));
                    let value = computed.ok_or_else(|| format!("{} has no value", argument.name))?;
                    constants.insert(&argument.name, value);
                }
                _ => {}
            }
        }
        if !constants.is_empty() {
            text.push_str("  [solver.constants]\n");
            for (name, value) in constants {
                let _ = writeln!(text, "  {name} = {}", constant(value));
            }
        }
        text.push_str(&words.text(params));
        let sizes = self.sizes();
        let dimension = |at: usize| {
            let said = grid::expression(&cases(at), &sizes);
            said.map(|said| quoted(&said)).ok_or_else(|| "its grid follows no rule that a spec can say".to_string())
        };
        let mut grid = (0..3).map(dimension).collect::<Result<Vec<_>, _>>()?;
        while grid.len() > 1 && grid.last().is_some_and(|last| last == "\"1\"") {
            grid.pop();
        }
        let mut arguments = Vec::new();
        for argument in &self.arguments {
            let descriptor = descriptor(argument, blocks)?;
            arguments.extend(descriptor.or_else(|| self.argument(&argument.kind)));
        }
        let _ = writeln!(
            text,
            "  [[solver.launch]]\n  entry = {}\n  arguments = [{}]\n  grid = [{}]",
            quoted(&self.function),
            arguments.join(", "),
            grid.join(", ")
        );
        Ok(text)
    }

    /// As a launch has it; nothing for a constexpr.
    fn argument(&self, kind: &ArgumentKind) -> Option<String> {
        Some(match kind {
            ArgumentKind::Tensor { buffer, offset: 0, .. } => quoted(buffer),
            ArgumentKind::Tensor { buffer, offset, .. } => {
                format!("{{ buffer = {}, offset = {offset} }}", quoted(buffer))
            }
            ArgumentKind::Int { value } => match (value.as_i64(), value.as_u64()) {
                (Some(value), _) if i32::try_from(value).is_ok() => format!("{{ i32 = {value} }}"),
                (Some(value), _) => format!("{{ i64 = {value} }}"),
                (None, Some(value)) => format!("{{ u64 = {} }}", quoted(&value.to_string())),
                (None, None) => return None,
            },
            ArgumentKind::Float { value } => format!("{{ f32 = {} }}", float(*value)),
            ArgumentKind::Bool { value } => format!("{{ i1 = {value} }}"),
            ArgumentKind::None => quoted("none"),
            ArgumentKind::Workspace => quoted("workspace"),
            ArgumentKind::Constexpr { .. } | ArgumentKind::Param | ArgumentKind::Descriptor { .. } => return None,
        })
    }

    /// Numbers that a grid may be made of: integers that the program launched it with, sizes of tensors and products of those.
    fn sizes(&self) -> BTreeSet<u64> {
        let mut sizes = BTreeSet::new();
        for argument in &self.arguments {
            match &argument.kind {
                ArgumentKind::Int { value } => sizes.extend(value.as_u64()),
                ArgumentKind::Constexpr { value: Typed::Int(value) } => sizes.extend(u64::try_from(*value)),
                ArgumentKind::Tensor { shape, .. } | ArgumentKind::Descriptor { shape, .. } => {
                    for from in 0..shape.len() {
                        let mut product = 1_u64;
                        for size in shape.iter().skip(from) {
                            product = product.saturating_mul(*size);
                            sizes.insert(product);
                            sizes.insert(*size);
                        }
                    }
                }
                _ => {}
            }
        }
        sizes.remove(&0);
        sizes
    }
}

impl Buffer {
    fn unknown(&self) -> Refused {
        format!("{}: found elements of {}, which bluefin has none of", self.name, self.dtype)
    }

    fn block(&self) -> Result<String, Refused> {
        let data_type = data_type(&self.dtype).ok_or_else(|| self.unknown())?;
        let mut text = format!(
            "\n[[buffer]]\nname = {}\ntype = {}\nlength = {}\nrole = {}\n",
            quoted(&self.name),
            quoted(data_type),
            self.elements,
            quoted(&self.role)
        );
        if self.role == "output" {
            return Ok(text);
        }
        match (&self.data, self.low, self.high) {
            (Some(data), _, _) => {
                let _ = writeln!(text, "data = {}", quoted(data));
            }
            (None, Some(low), Some(high)) if low >= high => {
                let _ = writeln!(text, "fill = {}", float(low));
            }
            (None, Some(low), Some(high)) => {
                let _ = writeln!(text, "low = {}\nhigh = {}", float(low), float(high));
            }
            (None, _, _) => {}
        }
        Ok(text)
    }
}

/// What bluefin calls elements of a type of Triton's.
fn data_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "fp64" => "FP64",
        "fp32" => "FP32",
        "fp16" => "FP16",
        "bf16" => "BF16",
        "fp8e4nv" | "fp8e4b8" => "FP8",
        "fp8e5" | "fp8e5b16" => "BF8",
        "i8" => "INT8",
        "i16" => "INT16",
        "i32" => "INT32",
        "i64" => "INT64",
        "u8" => "UINT8",
        "u16" => "UINT16",
        "u32" => "UINT32",
        "u64" => "UINT64",
        "u1" => "BOOL",
        _ => return None,
    })
}

/// How far sums of FP32 and FP64 may be apart that are added in another order, as a share: less than a cast to BF16 comes to. Of 1,048,576 sums of
/// flash-linear-attention's gates, which cancel, the worst were 1.1e-4 apart.
const PLAIN_FP32: f64 = 5e-4;
const PLAIN_FP64: f64 = 1e-10;

/// Of FP32 as TF32 has it.
const FP32: f64 = 4e-3;

/// How far results may be apart whose inputs or outputs are of this type, as a share: some roundings of its mantissa, which blocks of
/// other sizes do in another order.
fn tolerance(dtype: &str) -> Option<f64> {
    Some(match dtype {
        "fp64" => 1e-8,
        "fp32" => FP32,
        "fp16" => 1e-2,
        "bf16" => 4e-2,
        "fp8e4nv" | "fp8e4b8" | "fp8e5" | "fp8e5b16" => 0.25,
        _ => return None,
    })
}

/// The values, and one beside them each way: a power of two, or one more and one less.
fn around(values: Vec<i64>, least: i64, most: i64, doubled: bool) -> Vec<Typed> {
    let (first, last) = (values.iter().copied().min().unwrap_or(least), values.iter().copied().max().unwrap_or(least));
    let (from, to) = if doubled { (first / 2, last * 2) } else { (first - 1, last + 1) };
    let all = (from.max(least)..=to.min(most)).filter(|value| !doubled || value.count_ones() == 1);
    all.chain(values.iter().copied()).collect::<BTreeSet<_>>().into_iter().map(Typed::Int).collect()
}
