//! What is asked of a session, as it is said on a command line or in a plan: stages, tuner, budget, notes, algorithms to leave out.

use std::time::Duration;

use bluefin_common::method::Method;
use bluefin_common::session::{Budget, Pins, Stage};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::fleet::steer::NOTES;

/// What a session may spend.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Budget")]
pub struct BudgetArgs {
    /// Longest that a device works on one solver of one problem, such as 10m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub solver_budget: Option<Duration>,
    /// Longest that devices work on all solvers of one problem
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub problem_budget: Option<Duration>,
    /// Longest that devices work on the session
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub session_budget: Option<Duration>,
    /// MIOPEN_TUNING_TIME_MS_MAX: longest search of MIOpen's
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub tuning_time: Option<Duration>,
    /// MIOPEN_TUNING_PATIENCE: candidates in a row without improvement after which MIOpen's search ends
    #[arg(long, value_name = "N")]
    pub tuning_patience: Option<u64>,
    /// MIOPEN_DEBUG_TUNING_ITERATIONS_MAX: candidates that MIOpen's search tries
    #[arg(long, value_name = "N")]
    pub tuning_iterations: Option<u64>,
}

/// A stage by its name.
///
/// # Errors
/// If it is none.
pub fn parse_stage(text: &str) -> Result<Stage, String> {
    // fin's names of its steps hold that of their stage: miopen_perf_compile.
    let word = text.strip_prefix("miopen_").and_then(|step| step.split('_').next()).unwrap_or(text);
    Stage::ALL.into_iter().find(|stage| stage.name() == word).ok_or_else(|| "expected perf or find".to_string())
}

/// Names of methods, each with what it tunes.
#[must_use]
pub fn tuners() -> impl TypedValueParser<Value = Method> {
    let names = Method::all().into_iter().map(|method| PossibleValue::new(method.name).help(method.about));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Method>())
}

/// What `MIOPEN_DEBUG_CONV_...` can switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "help would print them, of words that say it themselves")]
pub enum Blacklisted {
    Fft,
    Direct,
    Gemm,
    Winograd,
    ImplicitGemm,
    Scgemm,
}

/// What a session's maker notes with it, in the order of [`NOTES`].
#[must_use]
pub fn notes(values: [&Option<String>; 4]) -> Pins {
    let notes = NOTES.into_iter().zip(values);
    notes.filter_map(|(key, value)| Some((key.to_string(), value.clone()?))).collect()
}

impl Blacklisted {
    /// As in `MIOPEN_DEBUG_CONV_FFT`.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

impl BudgetArgs {
    /// In milliseconds.
    #[must_use]
    pub fn budget(&self) -> Budget {
        let ms = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Budget {
            solver_ms: ms(self.solver_budget),
            problem_ms: ms(self.problem_budget),
            session_ms: ms(self.session_budget),
            tuning_time_ms: ms(self.tuning_time),
            tuning_patience: self.tuning_patience,
            tuning_iterations: self.tuning_iterations,
        }
    }
}
