//! What goes wrong on demand.

use bluefin_common::digest::Digest;

use crate::variable;

/// The key of the problem that workers try their tools with begins like this.
const TRIAL: &str = "16-8-8-1x1-16-8-8-1-";

/// A way to fail. The names are those of `STAND_IN_FAULTS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An uncaught exception: SIGABRT, and an empty answer.
    Crash,
    /// An exit code that is not 0.
    ExitCode,
    /// Never ends, and says nothing.
    Hang,
    /// Never ends, and says so again and again.
    Babble,
    /// Exit code 0 and an empty answer.
    EmptyOutput,
    /// Half of an answer.
    Garbage,
    /// The step's key is not in the answer.
    NoKey,
    /// The answer has no entry for the solver.
    NoEntry,
    /// A kernel that did not load: not evaluated, and no reason.
    MissingReason,
    /// A negative time, reported under the misspelled key.
    Reson,
    ZeroTime,
    /// A negative time and nothing said about it.
    NegativeTime,
    /// A solver that MIOpen has given up.
    Legacy,
    NotApplicable,
    /// The solver throws.
    Exception,
    /// A kernel whose stream is damaged.
    CorruptBlob,
    Md5Mismatch,
    /// A kernel that bzip2 would not have made smaller.
    Uncompressed,
    NoKernels,
    /// fin does not know the architecture.
    WrongArch,
    OutOfMemory,
    /// Prints its environment, then crashes.
    LeakEnvironment,
    /// SQLite's disk I/O error. The same call goes well the next time.
    DiskIo,
    /// An answer about another problem.
    WrongKey,
}

impl Fault {
    const ALL: [(&str, Self); 24] = [
        ("crash", Self::Crash),
        ("exit-code", Self::ExitCode),
        ("hang", Self::Hang),
        ("babble", Self::Babble),
        ("empty-output", Self::EmptyOutput),
        ("garbage", Self::Garbage),
        ("no-key", Self::NoKey),
        ("no-entry", Self::NoEntry),
        ("missing-reason", Self::MissingReason),
        ("reson", Self::Reson),
        ("zero-time", Self::ZeroTime),
        ("negative-time", Self::NegativeTime),
        ("legacy", Self::Legacy),
        ("not-applicable", Self::NotApplicable),
        ("exception", Self::Exception),
        ("corrupt-blob", Self::CorruptBlob),
        ("md5-mismatch", Self::Md5Mismatch),
        ("uncompressed", Self::Uncompressed),
        ("no-kernels", Self::NoKernels),
        ("wrong-arch", Self::WrongArch),
        ("out-of-memory", Self::OutOfMemory),
        ("leak-environment", Self::LeakEnvironment),
        ("disk-io", Self::DiskIo),
        ("wrong-key", Self::WrongKey),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, fault)| *fault == self).map_or("", |(name, _)| name)
    }

    /// Whether it can happen in `step`.
    fn fits(self, step: &str) -> bool {
        let (compiles, evaluates) = (step.ends_with("_compile"), step.ends_with("_eval") || step.starts_with("driver"));
        match self {
            Self::Crash
            | Self::ExitCode
            | Self::Hang
            | Self::Babble
            | Self::EmptyOutput
            | Self::Garbage
            | Self::LeakEnvironment
            | Self::OutOfMemory
            | Self::DiskIo => true,
            Self::CorruptBlob | Self::Md5Mismatch | Self::Uncompressed | Self::NoKernels => compiles,
            Self::MissingReason | Self::Reson | Self::ZeroTime | Self::NegativeTime | Self::Legacy => evaluates,
            Self::NoEntry | Self::NotApplicable | Self::Exception | Self::WrongKey | Self::NoKey | Self::WrongArch => {
                compiles || evaluates
            }
        }
    }

    /// Whether `any` may choose it: not what costs a minute of waiting, or stands for a machine and not for a call; and what
    /// passes only if somebody remembers that it did.
    fn is_usual(self) -> bool {
        match self {
            Self::Hang | Self::Babble | Self::WrongArch => false,
            Self::DiskIo => variable("STAND_IN_STATE").is_some(),
            _ => true,
        }
    }
}

/// What goes wrong, as `STAND_IN_FAULTS` says it: words separated by commas, each `<fault>[/<step>][:<solver>][=<rate>]`.
///
/// `crash` fails every call; `crash/miopen_perf_eval` those of one step; `hang:ConvAsm1x1U` those of one solver;
/// `reson=0.1` a tenth of all. `any=0.1` fails a tenth of all calls, each in one of the ways that its step has. Which calls
/// MIOpenDriver's steps are `driver`, `driver-alone` where it is told to tune nothing, `driver-immediate` where it launches what MIOpen chooses, and
/// `driver-row` where that is what a find db says, `driver-default` where none says anything. Which calls
/// these are follows from seed, step, solver and problem, and from nothing else.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    seed: String,
}

#[derive(Clone, Debug)]
struct Rule {
    /// `None`: any.
    fault: Option<Fault>,
    step: Option<String>,
    solver: Option<String>,
    rate: f64,
}

impl Faults {
    /// What the environment asks for.
    ///
    /// # Panics
    /// If that makes no sense: a test that asks for a fault must not pass for want of it.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::parse(&variable("STAND_IN_FAULTS").unwrap_or_default(), &variable("STAND_IN_SEED").unwrap_or_default())
    }

    /// # Panics
    /// If a word makes no sense.
    #[must_use]
    pub fn parse(text: &str, seed: &str) -> Self {
        let rules = text.split(',').filter(|word| !word.is_empty()).map(|word| {
            let (rest, rate) =
                word.split_once('=').map_or((word, 1.0), |(rest, rate)| (rest, rate.parse().expect("a rate")));
            let (rest, solver) =
                rest.split_once(':').map_or((rest, None), |(rest, solver)| (rest, Some(solver.to_string())));
            let (name, step) = rest.split_once('/').map_or((rest, None), |(rest, step)| (rest, Some(step.to_string())));
            let known = Fault::ALL.iter().find(|(known, _)| *known == name).map(|(_, fault)| *fault);
            assert!(known.is_some() || name == "any", "STAND_IN_FAULTS: no fault {name}");
            Rule { fault: known, step, solver, rate }
        });
        Self { rules: rules.collect(), seed: seed.to_string() }
    }

    /// What goes wrong with a call of `step` for `solver` and the problem of `key`, if anything does.
    #[must_use]
    pub fn of_call(&self, step: &str, solver: &str, key: &str) -> Option<Fault> {
        if key.starts_with(TRIAL) {
            return None;
        }
        let parts = [self.seed.as_bytes(), step.as_bytes(), solver.as_bytes(), key.as_bytes()];
        let [a, b, c, d, choice, ..] = Digest::of_parts("bluefin stand-in fault", parts).0;
        let fraction = f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX);
        let fault = self.rules.iter().find_map(|rule| {
            let here = rule.step.as_deref().is_none_or(|wanted| wanted == step)
                && rule.solver.as_deref().is_none_or(|wanted| wanted == solver)
                && fraction < rule.rate;
            if !here {
                return None;
            }
            let usual: Vec<Fault> = Fault::ALL
                .iter()
                .map(|(_, fault)| *fault)
                .filter(|fault| fault.fits(step) && fault.is_usual())
                .collect();
            rule.fault
                .or_else(|| usual.get(usize::from(choice) % usual.len().max(1)).copied())
                .filter(|fault| fault.fits(step))
        })?;
        (fault != Fault::DiskIo || first_time(step, solver, key)).then_some(fault)
    }
}

/// Whether this is the first such call, as far as anybody remembers.
fn first_time(step: &str, solver: &str, key: &str) -> bool {
    let Some(folder) = variable("STAND_IN_STATE") else { return true };
    let name = Digest::of_parts("bluefin stand-in state", [step.as_bytes(), solver.as_bytes(), key.as_bytes()]);
    std::fs::OpenOptions::new().write(true).create_new(true).open(format!("{folder}/{}", name.short())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_which_calls_fail_and_how() {
        let faults = Faults::parse("crash/miopen_perf_eval:a,reson:b", "1");
        assert_eq!(faults.of_call("miopen_perf_eval", "a", "k"), Some(Fault::Crash));
        assert_eq!(faults.of_call("miopen_find_eval", "a", "k"), None);
        assert_eq!(faults.of_call("miopen_find_eval", "b", "k"), Some(Fault::Reson));
        assert_eq!(faults.of_call("miopen_find_compile", "b", "k"), None, "there are no times when compiling");
    }

    #[test]
    fn a_rate_is_kept_and_every_way_is_taken() {
        let faults = Faults::parse("any=0.1", "7");
        let mut seen = std::collections::BTreeSet::new();
        let count = (0..4000).filter_map(|key| faults.of_call("miopen_find_eval", "a", &key.to_string()));
        let count = count.inspect(|fault| {
            seen.insert(fault.name());
        });
        let count = count.count();
        assert!((300..500).contains(&count), "{count} of 4000");
        assert!(seen.len() > 12 && !seen.contains("hang"), "{seen:?}");
        assert_eq!(faults.of_call("miopen_find_eval", "a", "k"), faults.of_call("miopen_find_eval", "a", "k"));
    }
}
