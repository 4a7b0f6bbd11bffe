//! `NAME.h` of each kernel of a user's own in C, HIP or CUDA: the macros of the candidate that won each problem, and the command that
//! builds it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bluefin_common::arch::{self, Vendor};
use bluefin_common::digest::Digest;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_common::wire;
use bluefin_kernel_spec::{Bundle, KernelSpec};

use super::{AnyRecords, Format, Records, toolchain_of};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// Toolchains whose kernels get their params as macros.
const TOOLCHAINS: [&str; 2] = ["cc", "clang"];
/// Commands that are told of a kernel beside its file.
const TOLD: usize = 3;

/// `NAME.h`.
#[derive(Clone, Copy, Debug)]
pub struct HeaderFormat;

impl Format for HeaderFormat {
    fn name(&self) -> &'static str {
        "header"
    }

    fn about(&self) -> &'static str {
        "NAME.h of each kernel of your own in C, HIP or CUDA: the winner's params as macros, and the command that builds it"
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(HeaderRecords::default())
    }
}

/// Winners by kernel and sizes.
#[derive(Debug, Default)]
pub struct HeaderRecords(BTreeMap<String, BTreeMap<String, Won>>);

/// The candidate that won a problem.
#[derive(Debug)]
struct Won {
    solver: String,
    median_ms: f64,
    /// The source that it is compiled from.
    file: String,
    /// Name and value of each macro, in byte order.
    macros: Vec<(String, String)>,
    toolchain: String,
    spec: Digest,
}

impl Won {
    /// The macros as a compiler takes them.
    fn defines(&self) -> String {
        self.macros.iter().map(|(name, value)| format!(" -D{name}={}", quoted(value))).collect()
    }

    /// The command line that builds it for `arch`, with the `flags` of its spec.
    fn command(&self, arch: &str, flags: &[String]) -> String {
        let compiler = match (self.toolchain.as_str(), arch::vendor(arch)) {
            ("cc", _) => "cc -std=gnu11 -O3 -march=native -shared -fPIC".to_string(),
            (_, Some(Vendor::Nvidia)) => format!("nvcc -O3 -arch={arch} -cubin"),
            _ => format!("hipcc -O3 --offload-arch={arch} --genco"),
        };
        let flags: String = flags.iter().map(|flag| format!(" {}", quoted(flag))).collect();
        let (stem, _) = self.file.rsplit_once('.').unwrap_or((&self.file, ""));
        let output = if self.toolchain == "cc" { format!("{stem}.so -lm") } else { format!("{stem}.out") };
        format!("{compiler}{flags}{} {} -o {output}", self.defines(), self.file)
    }
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl Fold for HeaderRecords {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let Problem::Kernel(kernel) = group.problem else { return };
        let Some(job) = group.outcomes.first().map(|outcome| &outcome.job) else { return };
        let winner = group.decision.as_ref().and_then(|decision| decision.winner());
        let Some(winner) = winner else { return };
        let toolchain = toolchain_of(job, winner);
        if !TOOLCHAINS.contains(&toolchain) {
            return;
        }
        let Some(object) = winner.outcome.built.as_ref().and_then(|built| built.objects.first()) else { return };
        let macros = object.options.split(" -D").filter_map(|option| option.split_once('='));
        let won = Won {
            solver: winner.solver().to_string(),
            median_ms: winner.timing.median_ms,
            file: object.file.clone(),
            macros: macros.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            toolchain: toolchain.to_string(),
            spec: group.spec,
        };
        let sizes: Vec<String> = kernel.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        self.0.entry(kernel.kernel.clone()).or_default().insert(sizes.join(" "), won);
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (kernel, winners) in other.0 {
            self.0.entry(kernel).or_default().extend(winners);
        }
    }
}

impl Records for HeaderRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let session = out.session.clone();
        for (kernel, winners) in self.0 {
            let mut commands = BTreeMap::new();
            for (sizes, won) in &winners {
                let flags = flags(out.store, won.spec).await?;
                commands.insert(sizes.clone(), won.command(session.target.arch(), &flags));
            }
            let told =
                commands.iter().take(TOLD).map(|(sizes, command)| format!("{kernel} {sizes} is built by: {command}"));
            out.notes.extend(told);
            let (name, session) = (format!("{kernel}.h"), session.clone());
            out.text(&name, move |out| document(out, &session, &kernel, &winners, &commands))?;
        }
        Ok(())
    }
}

/// The compiler's flags of a kernel spec; none where the store has it no more.
async fn flags(store: &dyn Store, spec: Digest) -> Result<Vec<String>, ExportError> {
    let bundle = store.blob(spec).await?.and_then(|bytes| wire::decode::<Bundle>(&bytes).ok());
    Ok(bundle.and_then(|bundle| KernelSpec::load(&bundle).ok()).map(|spec| spec.flags).unwrap_or_default())
}

/// Writes the header. Returns the number of problems.
fn document(
    out: &mut impl Write,
    session: &Session,
    kernel: &str,
    winners: &BTreeMap<String, Won>,
    commands: &BTreeMap<String, String>,
) -> io::Result<u64> {
    let upper: String =
        kernel.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let (name, target) = (session.name.as_str(), &session.target);
    writeln!(
        out,
        "// The params that won for kernel {kernel} on {target}, of session {name}. Include it before its source,"
    )?;
    writeln!(out, "// or build the kernel by the command of its problem.")?;
    if winners.len() > 1 {
        writeln!(out, "// {upper}_PROBLEM is the number of a problem; without it the first one is taken.")?;
    }
    writeln!(out, "#ifndef {upper}_TUNED_H\n#define {upper}_TUNED_H")?;
    for (index, (sizes, won)) in winners.iter().enumerate() {
        let number = index + 1;
        writeln!(out, "\n// {number}: {sizes}: {}, {:.4} ms", won.solver, won.median_ms)?;
        if let Some(command) = commands.get(sizes) {
            writeln!(out, "// {command}")?;
        }
        if winners.len() > 1 {
            match index {
                0 => writeln!(out, "#if !defined({upper}_PROBLEM) || {upper}_PROBLEM == {number}")?,
                _ => writeln!(out, "#elif {upper}_PROBLEM == {number}")?,
            }
        }
        for (name, value) in &won.macros {
            writeln!(out, "#define {name} {value}")?;
        }
    }
    if winners.len() > 1 {
        writeln!(out, "#else\n#error \"{upper}_PROBLEM: expected 1 to {}\"\n#endif", winners.len())?;
    }
    writeln!(out, "\n#endif")?;
    Ok(winners.len() as u64)
}

#[cfg(test)]
mod tests {
    use bluefin_common::session::Stage;
    use bluefin_common::target::Target;

    use super::*;

    fn won(rows: u32) -> Won {
        let macros = vec![("ROWS".to_string(), rows.to_string()), ("TYPE".to_string(), "unsigned int".to_string())];
        let (solver, file, toolchain) = ("Tiled".to_string(), "stencil.c".to_string(), "cc".to_string());
        Won { solver, median_ms: 0.25, file, macros, toolchain, spec: Digest::of(b"") }
    }

    fn header(winners: &BTreeMap<String, Won>) -> String {
        let session = Session::of_kernels("s".parse().unwrap(), Target::Host, "", &Stage::ALL, 0);
        let commands = winners.iter().map(|(sizes, won)| (sizes.clone(), won.command("host", &[]))).collect();
        let mut out = Vec::new();
        let written = document(&mut out, &session, "stencil", winners, &commands).unwrap();
        assert_eq!(written, winners.len() as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_problem_has_its_macros_and_its_command() {
        let text = header(&[("n=64".to_string(), won(2))].into());
        assert_eq!(
            text,
            "// The params that won for kernel stencil on host, of session s. Include it before its source,\n\
             // or build the kernel by the command of its problem.\n\
             #ifndef STENCIL_TUNED_H\n#define STENCIL_TUNED_H\n\n\
             // 1: n=64: Tiled, 0.2500 ms\n\
             // cc -std=gnu11 -O3 -march=native -shared -fPIC -DROWS=2 -DTYPE='unsigned int' stencil.c -o stencil.so -lm\n\
             #define ROWS 2\n#define TYPE unsigned int\n\n#endif\n"
        );
    }

    #[test]
    fn of_several_problems_one_is_chosen() {
        let text = header(&[("n=64".to_string(), won(2)), ("n=96".to_string(), won(4))].into());
        for line in [
            "#if !defined(STENCIL_PROBLEM) || STENCIL_PROBLEM == 1",
            "#elif STENCIL_PROBLEM == 2\n#define ROWS 4",
            "#error \"STENCIL_PROBLEM: expected 1 to 2\"",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_gpu_has_its_own_compiler() {
        let won = Won { toolchain: "clang".to_string(), file: "k.hip".to_string(), ..won(1) };
        let flags = ["-ffast-math".to_string()];
        assert!(
            won.command("gfx942", &flags).starts_with("hipcc -O3 --offload-arch=gfx942 --genco -ffast-math -DROWS=1")
        );
        assert!(won.command("sm_90", &[]).starts_with("nvcc -O3 -arch=sm_90 -cubin -DROWS=1"));
    }
}
