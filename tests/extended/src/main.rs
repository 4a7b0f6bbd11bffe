//! A build of bluefin that knows more than what is shipped: an operator, a method with its planner, toolchain and evaluator, a
//! format, and a search. Each is what docs/extending.md says, and all of them are handed in here.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin::{Extensions, NamedEvaluators};
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::{EvaluatedBy, FindJobs, Method, MethodInfo};
use bluefin_common::outcome::{CandidateOutcome, Timing};
use bluefin_common::problem::command::{DriverError, Flag, size};
use bluefin_common::problem::{KernelProblem, Operator, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_common::value::Value;
use bluefin_compile_worker::toolchain::{CompileAssignment, Compiled, Known, Toolchain};
use bluefin_compile_worker::{self as compile_worker, Made};
use bluefin_eval_worker::timing::Limits;
use bluefin_eval_worker::{self as eval_worker, Assignment, DeviceError, Evaluated, Evaluator, Running, Stop};
use bluefin_exporter::fold::{Fold, Group, Warnings};
use bluefin_exporter::format::{AnyRecords, Format, Records};
use bluefin_exporter::{ExportError, Output};
use bluefin_kernel_spec::SpecError;
use bluefin_kernel_spec::search::{Ask, Search};
use bluefin_producer::PlanError;
use bluefin_producer::plan::{Asked, PlannedGroup, Planner, Planning, ProblemPlan, Selects};
use futures_util::FutureExt as _;

fn main() -> ExitCode {
    bluefin::main(
        Extensions::shipped()
            .operator(&TRANSPOSE)
            .method(&SCALES, Arc::new(Words))
            .toolchain(PRESS)
            .evaluators(BALANCE)
            .format(Arc::new(Lines))
            .search(Arc::new(Backwards)),
    )
}

const SIDES: &[Flag] = &[size("rows", 'r', "64"), size("columns", 'c', "64")];

/// Matrices that are transposed: `transpose -r ROWS -c COLUMNS`.
static TRANSPOSE: Operator = Operator {
    word: "transpose",
    problems: "transposes",
    in_miopen: false,
    variables: &[],
    is_base: |base| base == "transpose",
    flags: SIDES,
    parse: |command| {
        let side = |name: &'static str| {
            Ok::<_, DriverError>((name.to_string(), command.flags.number(name, 1..=1 << 20)?.into()))
        };
        let sizes = BTreeMap::from([side("rows")?, side("columns")?]);
        Ok(vec![Problem::Kernel(KernelProblem::new("transpose".to_string(), sizes)?)])
    },
};

/// Words that are weighed by counting their letters.
static SCALES: MethodInfo = MethodInfo {
    name: "scales",
    about: "words, by their letters",
    toolchains: &["press"],
    evaluated_by: EvaluatedBy::Tool,
    find: FindJobs::PlayOff,
};

fn pin(key: &str) -> PlainPin {
    PlainPin { key: key.to_string(), value: "1".to_string() }
}

// === planner: three words a problem

struct Words;

#[async_trait]
impl Planner for Words {
    fn method(&self) -> Method {
        Method::of(&SCALES)
    }

    fn tunes(&self) -> &'static str {
        "words"
    }

    fn check(&self, _: &Session) -> Result<(), PlanError> {
        Ok(())
    }

    async fn begin<'a>(
        &'a self,
        _: &'a dyn Store,
        session: &Session,
        _: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        Ok(Box::new(OfWords(session.clone())))
    }
}

struct OfWords(Session);

#[async_trait]
impl Planning for OfWords {
    fn selects(&self) -> Selects {
        Selects::Solvers
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let word = |word: &str| Candidate { solver: "Word".to_string(), params: vec![Value::Text(word.to_string())] };
        let plan = |problem: &Problem| {
            let job = Job {
                session: self.0.name.clone(),
                stage: Stage::Perf,
                target: self.0.target.clone(),
                problem: problem.clone(),
                method: self.0.method,
                spec: Digest::of(b"words"),
                toolchain: "press".to_string(),
                candidates: ["gigantic", "big", "tiny", ""].map(word).to_vec(),
                round: 0,
                lane: Lane::First,
            };
            ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])])
        };
        Ok(problems.iter().map(plan).collect())
    }
}

// === toolchain: the letters of a word

const PRESS: Known = Known {
    name: "press",
    about: "words",
    by_default: false,
    probe: |_| async { Ok(Arc::new(Press(pin("toolchain.press"))) as Arc<dyn Toolchain>) }.boxed(),
    is_named: |_| false,
};

struct Press(PlainPin);

#[async_trait]
impl Toolchain for Press {
    fn name(&self) -> &str {
        "press"
    }

    fn pin(&self) -> &dyn Pin {
        &self.0
    }

    async fn serves(&self, _: &Target) -> Result<bool, compile_worker::Error> {
        Ok(true)
    }

    async fn compile(
        &self,
        CompileAssignment { job, workshop, .. }: CompileAssignment<'_>,
    ) -> Result<Compiled, compile_worker::Error> {
        let mut built = Vec::new();
        for candidate in &job.candidates {
            let letters = candidate.params_text();
            let key = Digest::of_parts("press", [letters.as_bytes()]);
            let pressed = || async {
                let object = CodeObject::plain(ArtifactRef::of(letters.as_bytes()), letters.clone(), "");
                let built = Built { objects: vec![object], ..Built::default() };
                Ok(Ok(Made { built, code: vec![letters.clone().into_bytes()] }))
            };
            built.push(workshop.cached(key, pressed).await?);
        }
        let solver =
            SolverInfo { name: "Word".to_string(), params: vec!["LETTERS".to_string()], ..SolverInfo::default() };
        let description =
            Description { library: "dictionary".to_string(), solvers: vec![solver], ..Description::default() };
        Ok(Compiled { task: TaskRef::None, description, built })
    }
}

// === evaluator: a millisecond a letter

const BALANCE: NamedEvaluators = NamedEvaluators {
    name: "scales",
    about: Some("for words"),
    find: |target, _| {
        let scales: Arc<dyn Evaluator> = Arc::new(Scales(target.unwrap_or(Target::Host)));
        async { Ok(vec![scales]) }.boxed()
    },
};

struct Scales(Target);

#[async_trait]
impl Evaluator for Scales {
    fn name(&self) -> &str {
        "scales"
    }

    fn target(&self) -> &Target {
        &self.0
    }

    fn method(&self) -> Method {
        Method::of(&SCALES)
    }

    async fn start(&self, _: &eval_worker::Metrics) -> Result<Box<dyn Running>, DeviceError> {
        Ok(Box::new(Weighing(pin("scales"))))
    }
}

struct Weighing(PlainPin);

#[async_trait]
impl Running for Weighing {
    fn identity(&self) -> &str {
        "scales of brass"
    }

    fn pins(&self, _: &Limits) -> Vec<Arc<dyn Pin>> {
        vec![Arc::new(self.0.clone())]
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let mut candidates = Vec::new();
        for (candidate, built) in assignment.job().candidates.iter().zip(&assignment.eval_job.built) {
            let result = match built {
                Ok(built) => {
                    let artifact = built.artifact().ok_or_else(|| Stop::Bury("no letters".to_string()))?;
                    Ok(Timing::single(1.0 + assignment.artifact(artifact, None).await?.code.len() as f64))
                }
                Err(failure) => Err(failure.clone()),
            };
            let (candidate, built) = (candidate.clone(), built.as_ref().ok().cloned());
            candidates.push(CandidateOutcome { candidate, built, result, resources: None });
        }
        Ok(Evaluated { candidates, ran: true, ..Evaluated::default() })
    }
}

// === format: a line a problem

#[derive(Debug)]
struct Lines;

#[derive(Default)]
struct LineRecords(BTreeMap<String, String>);

impl Format for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn about(&self) -> &'static str {
        "lines.txt: the lightest word of every problem"
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(LineRecords::default())
    }
}

impl Fold for LineRecords {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let winner = group.decision.as_ref().and_then(|decision| decision.winner());
        if let Some(winner) = winner {
            let (word, library) = (winner.outcome.candidate.params_text(), &group.description.library);
            self.0.insert(group.problem.canonical(), format!("{word:?} of {library}"));
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.0.extend(other.0);
    }
}

impl Records for LineRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let write = move |out: &mut std::io::BufWriter<std::fs::File>| -> std::io::Result<u64> {
            self.0.iter().try_for_each(|(problem, word)| writeln!(out, "{problem}: {word}"))?;
            Ok(self.0.len() as u64)
        };
        out.text("lines.txt", write)
    }
}

// === search: the fixed order from its end

struct Backwards;

impl Search for Backwards {
    fn name(&self) -> &'static str {
        "backwards"
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        let mut all = ask.space.first(usize::MAX)?;
        all.retain(|candidate| ask.tried.iter().all(|tried| tried.candidate != candidate));
        Ok(all.into_iter().rev().take(ask.n).collect())
    }
}
