//! `bluefin aiter import`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_aiter::coverage::{Shape, extend, gathered, untuned};
use bluefin_aiter::log::{Misses, read};
use bluefin_aiter::{FamilyName, Table, Value};
use bluefin_campaign::aiter::report::write;
use bluefin_producer::input::read_bytes;
use bluefin_terminal::out;
use serde::Serialize;

/// Make untuned files of the misses in a log
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin aiter import server.log --out untuned\n\n\
    Reads the lines that aiter prints where it finds no row: \"shape is ... not found tuned config in ...\", \"[fused_moe] using \
    ... default for ...\", \"[fused_moe] no tuned FlyDSL config for ...\", \"Fmoe tuning not support for ...\", \"no grouped CSV \
    config matched (...)\", \"[grouped-gemm-debug] no grouped CSV config match for ...\", \"[gfx1250] gemm_... untuned M=...\", and \
    the error of FHMoE. Where aiter says a miss in two lines it counts once. Shapes are added to the untuned file of their family, each \
    once; what is there stays as it is.")]
pub struct ImportArgs {
    /// Logs of whatever runs aiter; - for standard input
    #[arg(value_name = "FILE", required = true)]
    logs: Vec<PathBuf>,
    /// Folder of the untuned files; made if need be
    #[arg(short, long, visible_alias = "output", value_name = "DIR", default_value = "untuned")]
    out: PathBuf,
    /// Whose shapes those are whose line does not say it: of batched GEMMs
    #[arg(long, value_name = "NAME")]
    family: Option<FamilyName>,
    /// The type of weights where a line does not say it, as those of older releases, such as torch.float8_e4m3fn
    #[arg(long, value_name = "TYPE")]
    q_dtype_w: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// What became of a file.
#[derive(Serialize)]
struct Written {
    path: PathBuf,
    family: &'static str,
    /// In the logs.
    shapes: usize,
    misses: u64,
    /// To the file.
    added: u64,
}

impl ImportArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut misses = read_logs(&self.logs, self.family)?;
        let untyped = self.typed(&mut misses);
        let mut by_family: BTreeMap<&str, Vec<&Shape>> = BTreeMap::new();
        for shape in &misses.shapes {
            by_family.entry(shape.family.name).or_default().push(shape);
        }
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        let mut all = Vec::new();
        for shapes in by_family.values() {
            let Some(family) = shapes.first().map(|shape| shape.family) else { continue };
            let path = self.out.join(family.untuned_file());
            let mut table = if path.exists() { Table::read(&path)? } else { untuned(&path, family) };
            let added = extend(&mut table, family, shapes);
            if added > 0 {
                write(&path, &table)?;
            }
            let misses = shapes.iter().map(|shape| shape.times).sum();
            all.push(Written { path, family: family.name, shapes: shapes.len(), misses, added });
        }
        if self.json {
            out::json(&all)?;
        } else {
            for Written { path, family, shapes, misses, added } in &all {
                let path = path.display();
                out::line(format_args!("{path}: {family}, {misses} misses of {shapes} shapes, {added} added"))?;
            }
        }
        for shape in &untyped {
            let Shape { family, key, .. } = shape;
            say!("not taken: {} {key}: found no q_dtype_w, expected --q-dtype-w to say it", family.name);
        }
        Ok(if tell(&misses) && untyped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Says the type of weights where lines do not. Returns the shapes that none is known of: no tuner takes them.
    fn typed(&self, misses: &mut Misses) -> Vec<Shape> {
        const COLUMN: &str = "q_dtype_w";
        let (mut untyped, mut typed) = (Vec::new(), Vec::new());
        for mut shape in std::mem::take(&mut misses.shapes) {
            let needs_it = shape.family.shape.contains(&COLUMN) && shape.key.get(COLUMN).is_none();
            match (&self.q_dtype_w, needs_it) {
                (Some(told), true) => {
                    shape.key.0.push((COLUMN, Value::of(told)));
                    typed.push(shape);
                }
                (None, true) => untyped.push(shape),
                (_, false) => typed.push(shape),
            }
        }
        misses.shapes = gathered(typed);
        untyped
    }
}

/// The misses of all logs.
pub fn read_logs(logs: &[PathBuf], family: Option<FamilyName>) -> anyhow::Result<Misses> {
    let mut text = String::new();
    for log in logs {
        text.push_str(&String::from_utf8_lossy(&read_bytes(log)?));
        text.push('\n');
    }
    Ok(read(&text, family.map(|family| family.0)))
}

/// Says which misses could not be taken. Returns whether all could.
pub fn tell(misses: &Misses) -> bool {
    for fields in &misses.unplaced {
        say!("not taken: {fields}: found no family, expected --family to say it");
    }
    if misses.unread > 0 {
        say!("not taken: {} lines that tell of a miss and can not be read", misses.unread);
    }
    misses.unplaced.is_empty() && misses.unread == 0
}
