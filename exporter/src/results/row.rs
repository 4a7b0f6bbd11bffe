//! What is told of one candidate.

use std::sync::Arc;

use bluefin_common::candidate::Candidate;
use bluefin_common::course::Course;
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::noise::Noise;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::session::Stage;
use bluefin_common::value::Value;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fold::Group;
use crate::searched::Searched;

/// A candidate in one stage, with what came of it. The names of the fields are those of all formats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub session: Arc<str>,
    pub target: Arc<str>,
    /// The canonical driver command.
    pub problem: Arc<str>,
    /// Short name of the problem; not unique.
    pub label: Arc<str>,
    /// Name of the kernel spec, or of the tool.
    pub spec: Arc<str>,
    /// Digest of the kernel spec, of which an edited one has another.
    pub spec_digest: Option<Arc<str>>,
    pub solver: String,
    /// As MIOpen's find db names it.
    pub algorithm: Option<String>,
    /// By name, in the order of the spec; by index where a tool does not name them.
    #[serde(serialize_with = "by_name", deserialize_with = "named")]
    pub params: Vec<(String, Value)>,
    /// Whether these are the params that the solver has when nobody tunes it, where those are known.
    pub is_default: Option<bool>,
    pub stage: Stage,
    pub result: Came,
    pub median_ms: Option<f64>,
    pub spread_ms: Option<f64>,
    /// Number of `samples_ms`.
    pub samples: u32,
    /// In the order they were taken.
    pub samples_ms: Vec<f32>,
    pub gflops: Option<f64>,
    /// 10^9 bytes a second, where the problem's bytes are known.
    pub gbytes_per_s: Option<f64>,
    pub clock_mhz: Option<u32>,
    /// Samples at less than three quarters of the reference clock, taken again or kept.
    pub throttled: u32,
    /// Why its time is in doubt, where it is: other work of the machine.
    pub noise: Option<String>,
    /// Only probed: clearly slower than the best known of its problem.
    pub pruned: bool,
    /// It can not be told apart from the fastest of the comparison that found the winner.
    pub tied: bool,
    pub winner: bool,
    pub failure: Option<FailureKind>,
    /// The compiler's or the tool's words; of a candidate that is right whether its reference is deterministic, if it is not.
    pub detail: Option<String>,
    /// Digests of what it was built into.
    pub artifacts: Vec<String>,
    /// Bytes.
    pub workspace: Option<u64>,
    pub job: Arc<str>,
    pub compiled_by: Option<Arc<str>>,
    /// Milliseconds that a compile worker had the job.
    pub compile_ms: Option<u64>,
    pub evaluated_by: Option<Arc<str>>,
    /// As the device names itself.
    pub device: Option<Arc<str>>,
    pub device_uuid: Option<Arc<str>>,
    pub driver: Option<Arc<str>>,
    /// Milliseconds since the Unix epoch.
    pub enqueued_ms: Option<u64>,
    pub finished_ms: u64,
    /// How often in a row the job was compiled again because its artifacts were gone.
    pub recompiles: u32,
    /// Times that the job was tried: again after it failed, or because its artifacts were gone.
    pub attempts: u32,
    /// What came of the candidate where its job was tried again, oldest first.
    pub before: Vec<Before>,
    /// Milliseconds of the eval worker's time that the whole job took.
    pub busy_ms: u64,
    /// Candidates of the job.
    pub job_candidates: u32,
    /// Why the search of the solver for the problem ended, where somebody searched: `all`, `budget`, `patience`, `behind`.
    pub search_ended: Option<String>,
    /// The share of the solver's tuning space that was tried.
    pub tried_percent: Option<f64>,
    /// By how much its best time is expected to fall if as many candidates are tried again.
    pub expected_gain_percent: Option<f64>,
    /// Of a thread, as the GPU's driver says.
    pub registers: Option<u32>,
    /// Bytes that a thread has in memory instead: what did not fit into registers, and arrays that are indexed.
    pub spilled_bytes: Option<u32>,
    /// Bytes of shared memory, or of LDS, of a block.
    pub shared_bytes: Option<u32>,
    /// Blocks that a multiprocessor, or compute unit, has room for at a time.
    pub resident_blocks: Option<u32>,
}

/// A failure of a candidate whose job was tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Milliseconds since the Unix epoch.
    pub finished_ms: u64,
    /// Who had the job, where that is known.
    pub worker: Option<String>,
    pub failure: FailureKind,
    /// The compiler's or the tool's words, or the first of them.
    pub detail: String,
}

/// What came of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    Timed,
    Pruned,
    #[serde(untagged)]
    Failed(FailureKind),
}

impl Came {
    /// `timed`, `pruned`, or the name of the failure kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Pruned => "pruned",
            Self::Failed(kind) => kind.name(),
        }
    }
}

impl Row {
    /// Params as `name=value` with blanks between.
    #[must_use]
    pub fn params_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.params {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
            text.push('=');
            text.push_str(&value.to_string());
        }
        text
    }

    /// The candidate, as its history names it.
    pub(super) fn candidate(&self) -> String {
        let params = self.params.iter().map(|(_, value)| value.clone()).collect();
        Candidate { solver: self.solver.clone(), params }.to_string()
    }

    /// What failed before, as a JSON array.
    pub(super) fn before_json(&self) -> String {
        serde_json::to_string(&self.before).unwrap_or_default()
    }

    /// Params as a JSON object.
    pub(super) fn params_json(&self) -> String {
        struct Map<'a>(&'a [(String, Value)]);
        impl Serialize for Map<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                by_name(self.0, serializer)
            }
        }
        serde_json::to_string(&Map(&self.params)).unwrap_or_default()
    }
}

/// The rows of a group: each outcome's candidates in their order.
pub(super) fn of(group: &Group<'_>, mut add: impl FnMut(Row)) {
    let known = Known::of(group);
    for outcome in group.outcomes {
        let job = OfJob::of(outcome);
        outcome.candidates.iter().for_each(|candidate| add(known.row(group, outcome, &job, candidate)));
    }
}

/// What is the same for all candidates of a group.
struct Known {
    session: Arc<str>,
    target: Arc<str>,
    problem: Arc<str>,
    label: Arc<str>,
    spec: Arc<str>,
    spec_digest: Option<Arc<str>>,
    flops: Option<f64>,
    bytes: Option<f64>,
    searched: Vec<Searched>,
}

/// What is the same for all candidates of a job.
struct OfJob {
    id: Arc<str>,
    compiled_by: Option<Arc<str>>,
    compile_ms: Option<u64>,
    evaluated_by: Option<Arc<str>>,
    device: Option<Arc<str>>,
    device_uuid: Option<Arc<str>>,
    driver: Option<Arc<str>>,
}

impl OfJob {
    fn of(outcome: &Outcome) -> Self {
        let told = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
        let Course { compiled, evaluated, .. } = &outcome.course;
        Self {
            id: outcome.job_id().to_string().into(),
            compiled_by: compiled.as_ref().and_then(|by| told(&by.worker)),
            compile_ms: compiled.as_ref().map(|by| by.ended_ms.saturating_sub(by.begun_ms)),
            evaluated_by: evaluated.as_ref().and_then(|by| told(&by.worker)),
            device: told(&outcome.device),
            device_uuid: told(&outcome.device_state.uuid),
            driver: told(&outcome.device_state.driver),
        }
    }
}

impl Known {
    fn of(group: &Group<'_>) -> Self {
        Self {
            session: group.session.name.as_str().into(),
            target: group.session.target.to_string().into(),
            problem: group.problem.canonical().into(),
            label: group.problem.label().into(),
            spec: group.description.library.as_str().into(),
            spec_digest: (group.spec != Digest::of(b"")).then(|| group.spec.to_string().into()),
            flops: group.flops(),
            bytes: group.bytes(),
            searched: Searched::all(group),
        }
    }

    fn row(&self, group: &Group<'_>, outcome: &Outcome, job: &OfJob, of: &CandidateOutcome) -> Row {
        let Candidate { solver, params } = &of.candidate;
        let about = group.description.solver(solver);
        let name = |index: usize| about.and_then(|about| about.params.get(index)).cloned();
        let params = params.iter().enumerate();
        let params = params.map(|(index, value)| (name(index).unwrap_or_else(|| index.to_string()), value.clone()));
        let default = about.and_then(|about| about.default.as_ref());
        let (timing, failure) = match &of.result {
            Ok(timing) => (Some(timing), None),
            Err(failure) => (None, Some(failure)),
        };
        let median_ms = timing.map(|timing| timing.median_ms);
        let rate = |amount: Option<f64>| Some(amount? / (median_ms.filter(|median| *median > 0.0)? * 1e6));
        let decision = group.decision.as_ref();
        let is = |timed: &bluefin_common::decision::Timed<'_>| std::ptr::eq(timed.outcome, of);
        let searched = self.searched.iter().find(|searched| searched.solver == *solver);
        let pruned = timing.is_some_and(|timing| timing.pruned);
        Row {
            session: self.session.clone(),
            target: self.target.clone(),
            problem: self.problem.clone(),
            label: self.label.clone(),
            spec: self.spec.clone(),
            spec_digest: self.spec_digest.clone(),
            solver: solver.clone(),
            algorithm: about.and_then(|about| about.algorithm.clone()),
            params: params.collect(),
            is_default: default.map(|default| *default == of.candidate.params),
            stage: outcome.job.stage,
            result: match failure {
                Some(failure) => Came::Failed(failure.kind),
                None if pruned => Came::Pruned,
                None => Came::Timed,
            },
            median_ms,
            spread_ms: timing.map(|timing| timing.spread_ms),
            samples: timing.map_or(0, |timing| u32::try_from(timing.samples_ms.len()).unwrap_or(u32::MAX)),
            samples_ms: timing.map(|timing| timing.samples_ms.clone()).unwrap_or_default(),
            gflops: rate(self.flops),
            gbytes_per_s: rate(self.bytes),
            clock_mhz: timing.map(|timing| timing.clock_mhz).filter(|clock| *clock > 0),
            throttled: timing.map_or(0, |timing| timing.throttled),
            noise: timing.and_then(|timing| Noise::of(timing, outcome)).map(|noise| noise.to_string()),
            pruned,
            tied: decision.is_some_and(|decision| decision.tied.iter().any(is)),
            winner: decision.and_then(|decision| decision.winner()).is_some_and(is),
            failure: failure.map(|failure| failure.kind),
            detail: failure.map(|failure| failure.detail.clone()).or_else(|| outcome.not_deterministic()),
            artifacts: of
                .built
                .iter()
                .flat_map(|built| &built.objects)
                .map(|one| one.artifact.digest.to_string())
                .collect(),
            workspace: of.built.as_ref().map(|built| built.workspace),
            job: job.id.clone(),
            compiled_by: job.compiled_by.clone(),
            compile_ms: job.compile_ms,
            evaluated_by: job.evaluated_by.clone(),
            device: job.device.clone(),
            device_uuid: job.device_uuid.clone(),
            driver: job.driver.clone(),
            enqueued_ms: Some(outcome.course.enqueued_ms).filter(|at| *at > 0),
            finished_ms: outcome.finished_ms,
            recompiles: outcome.course.recompiles,
            attempts: outcome.course.recompiles.saturating_add(1),
            before: Vec::new(),
            busy_ms: outcome.busy_ms,
            job_candidates: u32::try_from(outcome.candidates.len()).unwrap_or(u32::MAX),
            search_ended: searched.map(|searched| searched.ended.to_string()),
            tried_percent: searched.map(Searched::share_percent),
            expected_gain_percent: searched.and_then(|searched| searched.expected_gain_percent),
            registers: of.resources.map(|taken| taken.registers),
            spilled_bytes: of.resources.map(|taken| taken.spilled),
            shared_bytes: of.resources.map(|taken| taken.shared),
            resident_blocks: of.resources.and_then(|taken| taken.resident),
        }
    }
}

/// As a map, in their order.
pub(crate) fn by_name<S: Serializer>(params: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(params.len()))?;
    for (name, value) in params {
        match value {
            Value::Int(value) => map.serialize_entry(name, value)?,
            Value::Text(value) => map.serialize_entry(name, value)?,
            Value::Bool(value) => map.serialize_entry(name, value)?,
        }
    }
    map.end()
}

/// The other way round.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Value)>, D::Error> {
    let map = serde_json::Map::deserialize(deserializer)?;
    let value = |value: serde_json::Value| match value {
        serde_json::Value::Bool(value) => Some(Value::Bool(value)),
        serde_json::Value::String(value) => Some(Value::Text(value)),
        serde_json::Value::Number(value) => value.as_i64().map(Value::Int),
        _ => None,
    };
    let pair = |(name, found): (String, serde_json::Value)| match value(found) {
        Some(value) => Ok((name, value)),
        None => Err(D::Error::custom(format!("params.{name}: expected a whole number, a text or a bool"))),
    };
    map.into_iter().map(pair).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn row(index: u32) -> Row {
        Row {
            session: "s".into(),
            target: "host".into(),
            problem: format!("conv -n {}", index / 4).into(),
            label: format!("conv {}", index / 4).into(),
            spec: "conv-fwd-host".into(),
            spec_digest: Some("ab".into()),
            solver: if index.is_multiple_of(2) { "Direct" } else { "Tiled" }.to_string(),
            algorithm: None,
            params: vec![("tile".to_string(), Value::Int(i64::from(index))), ("order".to_string(), "x\"y".into())],
            is_default: Some(index == 0),
            stage: Stage::Perf,
            result: Came::Timed,
            median_ms: Some(f64::from(100 - index)),
            spread_ms: Some(0.5),
            samples: 2,
            samples_ms: vec![1.5, 2.5],
            gflops: Some(3.0),
            gbytes_per_s: None,
            clock_mhz: None,
            throttled: 0,
            noise: None,
            pruned: false,
            tied: false,
            winner: index == 3,
            failure: None,
            detail: None,
            artifacts: vec!["cd".to_string()],
            workspace: Some(0),
            job: "ef".into(),
            compiled_by: Some("worker-1".into()),
            compile_ms: Some(80),
            evaluated_by: None,
            device: Some("cpu".into()),
            device_uuid: None,
            driver: None,
            enqueued_ms: None,
            finished_ms: 1_700_000_000_123,
            recompiles: 0,
            attempts: 1,
            before: Vec::new(),
            busy_ms: 7,
            job_candidates: 8,
            search_ended: Some("patience".to_string()),
            tried_percent: Some(12.5),
            expected_gain_percent: Some(0.75),
            registers: Some(168),
            spilled_bytes: Some(0),
            shared_bytes: Some(49_152),
            resident_blocks: None,
        }
    }

    pub fn failed(index: u32, kind: FailureKind, detail: &str) -> Row {
        Row {
            result: Came::Failed(kind),
            failure: Some(kind),
            detail: Some(detail.to_string()),
            median_ms: None,
            spread_ms: None,
            samples: 0,
            samples_ms: Vec::new(),
            gflops: None,
            artifacts: Vec::new(),
            workspace: None,
            ..row(index)
        }
    }

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        for row in
            [row(3), failed(4, FailureKind::CompileError, "error: a\n  b"), Row { result: Came::Pruned, ..row(1) }]
        {
            let text = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row, "{text}");
        }
        let text = serde_json::to_string(&failed(4, FailureKind::NotANumber, "")).unwrap();
        assert!(text.contains(r#""result":"not_a_number""#) && text.contains(r#""params":{"tile":4,"#), "{text}");
    }
}
