//! Rounds with the kernels that bluefin ships.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use bluefin_common::description::Description;
use bluefin_common::failure::Failure;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::Timing;
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};
use bluefin_common::target::Target;

use super::*;
use crate::Bundle;
use crate::search::Bayes;

/// A convolution of 3 x 3 in FP16, with as many channels out as in.
fn square(direction: Direction, channels: u32, side: u32, stride: u32) -> Problem {
    let plain = ConvShape::plain(direction, DataType::Fp16);
    let sizes = ConvShape { n: 32, c: channels, k: channels, input: [1, side, side], filter: [1, 3, 3], ..plain };
    let shape = ConvShape { stride: [1, stride, stride], pad: [0, 1, 1], ..sizes };
    Problem::Conv(ConvProblem::new(shape).unwrap())
}

fn job(problem: &Problem, target: &Target) -> Job {
    Job {
        session: "s".parse().unwrap(),
        stage: Stage::Perf,
        target: target.clone(),
        problem: problem.clone(),
        method: Method::KERNELS,
        spec: Digest::of(b""),
        toolchain: "clang".to_string(),
        candidates: Vec::new(),
        round: 0,
        lane: Lane::First,
    }
}

/// What came of the candidates of `job`, each of which took so long.
fn came(job: &Job, ms: impl Fn(&Candidate) -> f64) -> Outcome {
    let timing = |median_ms| Timing {
        median_ms,
        spread_ms: 0.0,
        samples_ms: vec![median_ms as f32],
        pruned: false,
        cold: true,
        throttled: 0,
        clock_mhz: 0,
    };
    let candidates = job.candidates.iter().map(|one| CandidateOutcome::of(one.clone(), None, Ok(timing(ms(one)))));
    Outcome::undone(job, Description::default(), candidates.collect(), 0)
}

#[test]
fn solvers_that_compete_begin_with_their_defaults_and_go_on_as_far_as_they_may_win() {
    let shipped = Bundle::shipped().into_iter().map(|bundle| KernelSpec::load(&bundle).unwrap());
    let spec = &shipped.into_iter().find(|spec| spec.name == "conv-fwd-gpu").unwrap();
    let problem = &square(Direction::Forward, 64, 56, 1);
    let target: Target = "sm_90-132".parse().unwrap();
    let scope = &spec.scope(problem, &target).unwrap().unwrap();
    let (search, plan) = (&Bayes, &SearchPlan::new("bayes", 64));
    let searching = Searching { search, plan, problem, spec, scope, priors: None, ahead: 1 };
    let any = job(problem, &target);
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut sizes: Vec<BTreeMap<String, usize>> = Vec::new();
    // Direct and ImplicitGemm are far behind whatever a model hopes for; MatrixCore is hoped for until it has four, and where channels are last, where it is
    // nearer, with one candidate at a time.
    let ms = |one: &Candidate| match one.solver.trim_start_matches("BluefinConvFwdGpu") {
        "Direct" | "ImplicitGemm" | "Reference" => 90.0,
        "MatrixCore" => 1.9,
        "MatrixCoreChannelsLast" => 1.2,
        _ => 1.0,
    };
    for _ in 0..7 {
        let rounds = searching.current(&outcomes, &[]).unwrap();
        assert_eq!(rounds, searching.current(&outcomes, &[]).unwrap(), "whoever plans it plans the same");
        let jobs: Vec<Job> = rounds.iter().flat_map(|round| round.jobs(&any)).collect();
        let name = |job: &Job| job.candidates[0].solver.trim_start_matches("BluefinConvFwdGpu").to_string();
        sizes.push(jobs.iter().map(|job| (name(job), job.candidates.len())).collect());
        outcomes.extend(jobs.iter().map(|job| came(job, ms)));
    }
    let of = |solver: &str| sizes.iter().map(|of| of.get(solver).copied().unwrap_or(0)).collect::<Vec<_>>();
    for solver in ["Direct", "ImplicitGemm", "Reference"] {
        assert_eq!(of(solver), [1, 0, 0, 0, 0, 0, 0], "{solver}");
    }
    assert_eq!(of("MatrixCore"), [1, 2, 1, 0, 0, 0, 0]);
    assert_eq!(of("MatrixCoreChannelsLast"), [1, 3, 1, 1, 0, 0, 0]);
    for solver in ["Warpgroup", "WarpgroupChannelsLast"] {
        assert_eq!(of(solver), [1, 3, 4, 4, 4, 8, 8], "{solver}");
    }
    let first = &outcomes[0].candidates[0].candidate;
    let solver = spec.solvers_for(scope).unwrap().into_iter().find(|solver| solver.name == first.solver).unwrap();
    assert_eq!(*first, solver.default_candidate());
}

/// Weight gradients of 3 x 3 convolutions are compiled alike whatever their channels are, but not with another stride.
#[test]
fn what_is_compiled_for_a_like_problem_is_known() {
    let shipped = Bundle::shipped().into_iter().map(|bundle| KernelSpec::load(&bundle).unwrap());
    let spec = &shipped.into_iter().find(|spec| spec.name == "conv-wrw-gpu").unwrap();
    let target: Target = "sm_90-132".parse().unwrap();
    let problem = |channels, stride| square(Direction::BackwardWeights, channels, 28, stride);
    let scope = |problem: &Problem| spec.scope(problem, &target).unwrap().unwrap();
    let (plan, here) = (&SearchPlan::new("bayes", 24), &problem(128, 1));
    let searching =
        Searching { search: &Bayes, plan, problem: here, spec, scope: &scope(here), priors: None, ahead: 1 };
    let solver = spec.solver("BluefinConvWrwGpuWarpgroupChannelsLast").unwrap();
    let compiled = |there: &Problem| {
        let candidates = spec.candidates(solver, &scope(there), 12).unwrap().points;
        let tried = came(&Job { candidates: candidates.clone(), ..job(there, &target) }, |_| 1.0);
        let mut failed = tried.clone();
        for one in &mut failed.candidates {
            one.result = Err(Failure::new(FailureKind::CompileError, "no"));
        }
        assert!(searching.compiled(solver, &[failed]).is_empty());
        (candidates.into_iter().collect::<BTreeSet<_>>(), searching.compiled(solver, &[tried]))
    };
    let (tried, known) = compiled(&problem(64, 1));
    assert_eq!((tried.len(), &known), (12, &tried));
    // Of a number that is no power of two the code knows, and of the stride.
    for other in [problem(96, 1), problem(64, 2)] {
        assert_eq!(compiled(&other).1, BTreeSet::new());
    }
}

/// The fixed order, which notes the costs that it is told: of the problem itself, then of another one.
#[derive(Default)]
struct Costs(Mutex<Vec<Option<f64>>>);

impl Search for Costs {
    fn name(&self) -> &'static str {
        "costs"
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        let others = ask.others.iter().flat_map(|other| &other.tried);
        self.0.lock().unwrap().extend(ask.tried.iter().chain(others).map(|tried| tried.cost));
        Ok(Vec::new())
    }
}

#[test]
fn what_a_model_says_of_a_candidate_it_says_for_the_problem_that_it_was_tried_for() {
    let shipped = Bundle::shipped().into_iter().map(|bundle| KernelSpec::load(&bundle).unwrap());
    let spec = &shipped.into_iter().find(|spec| spec.name == "conv-fwd-gpu").unwrap();
    let target: Target = "sm_90-132".parse().unwrap();
    let (here, there) = (&square(Direction::Forward, 128, 28, 1), &square(Direction::Forward, 512, 7, 1));
    let scope = |problem: &Problem| spec.scope(problem, &target).unwrap().unwrap();
    let solver = spec.solver("BluefinConvFwdGpuWarpgroup").unwrap();
    let default = solver.default_candidate();
    let tried = |problem: &Problem| came(&Job { candidates: vec![default.clone()], ..job(problem, &target) }, |_| 1.0);
    let (search, plan) = (&Costs::default(), &SearchPlan::new("costs", 16));
    let searching = Searching { search, plan, problem: here, spec, scope: &scope(here), priors: None, ahead: 1 };
    let own = [tried(here)];
    let own = Tried::before(1, &own, &solver.name);
    searching.propose(solver, &own, &[], &[tried(there)], 8).unwrap();
    let cost = |problem: &Problem| solver.cost(&default.params, &scope(problem)).unwrap();
    assert_eq!(*search.0.lock().unwrap(), [cost(here), cost(there)]);
    assert!(cost(here).is_some() && cost(here) != cost(there), "{:?}", cost(here));
}
