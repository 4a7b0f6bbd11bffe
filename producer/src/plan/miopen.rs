//! Jobs of MIOpen's solvers: one for each stage, problem and solver, so that one that fails takes nothing with it.

use bluefin_common::digest::Digest;
use bluefin_common::job::{Job, Stage};
use bluefin_common::miopen::{ANY_SOLVER, Tool};
use bluefin_common::outcome::Candidate;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;

use crate::applicability::Applicable;
use crate::solvers::{Choice, Snapshot};

/// The jobs of `problem` that can be planned now, through fin: of tunable solvers those of the perf stage, whose find jobs
/// follow when they are done, and of the others those of the find stage. Tunable ones are found with MIOpen's own params
/// where `stages` has no perf. Solvers that are not in the snapshot are left out.
#[must_use]
pub fn of_fin(
    session: &Session,
    problem: &Problem,
    applicable: &Applicable,
    solvers: &Snapshot,
    choice: &Choice,
    stages: &[Stage],
) -> Vec<Job> {
    let chosen = applicable.solvers.iter().filter_map(|name| solvers.get(name)).filter(|solver| choice.takes(solver));
    chosen
        .filter_map(|solver| {
            let stage = if solver.tunable && stages.contains(&Stage::Perf) { Stage::Perf } else { Stage::Find };
            stages.contains(&stage).then(|| job(session, Tool::Fin, stage, problem, [solver.name.as_str()]))
        })
        .collect()
}

/// The job of `problem` through MIOpenDriver, which finds, tunes and compiles in one process: all solvers, or those named.
#[must_use]
pub fn of_driver(session: &Session, problem: &Problem, names: &[String]) -> Job {
    let any = [ANY_SOLVER];
    let names = names.iter().map(String::as_str);
    if names.len() == 0 {
        return job(session, Tool::MiopenDriver, Stage::Find, problem, any);
    }
    job(session, Tool::MiopenDriver, Stage::Find, problem, names)
}

/// Whether MIOpen has solvers for problems of this kind.
#[must_use]
pub fn is_of_miopen(problem: &Problem) -> bool {
    match problem {
        Problem::Conv(_) | Problem::BatchNorm(_) => true,
        Problem::Gemm(_) | Problem::Kernel(_) => false,
    }
}

fn job<'a>(
    session: &Session,
    tool: Tool,
    stage: Stage,
    problem: &Problem,
    solvers: impl IntoIterator<Item = &'a str>,
) -> Job {
    Job {
        session: session.name.clone(),
        stage,
        target: session.target.clone(),
        problem: problem.clone(),
        // There is no kernel spec.
        spec: Digest::of(b""),
        toolchain: tool.name().to_string(),
        candidates: solvers
            .into_iter()
            .map(|solver| Candidate { solver: solver.to_string(), params: Vec::new() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::miopen::solver::Solver;
    use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};
    use bluefin_common::session::Tuner;

    use super::*;

    fn session() -> Session {
        let target = "gfx90a-104".parse().unwrap();
        let session = Session::of_kernels("s".parse().unwrap(), target, "", &Stage::ALL, 1);
        Session { tuner: Tuner::Fin, ..session }
    }

    fn problem() -> Problem {
        Problem::Conv(ConvProblem::new(ConvShape::plain(Direction::Forward, DataType::Fp32)).unwrap())
    }

    fn snapshot() -> Snapshot {
        let solver = |(name, tunable): (&str, bool)| {
            let primitive = "convolution".to_string();
            (name.to_string(), Solver { id: 1, name: name.to_string(), primitive, tunable, dynamic: false })
        };
        [("ConvAsm1x1U", true), ("GemmFwdRest", false)].map(solver).into()
    }

    fn planned(choice: &Choice, stages: &[Stage]) -> Vec<(Stage, String)> {
        let applicable = Applicable { solvers: ["ConvAsm1x1U", "GemmFwdRest", "Gone"].map(String::from).to_vec() };
        let jobs = of_fin(&session(), &problem(), &applicable, &snapshot(), choice, stages);
        jobs.into_iter().map(|job| (job.stage, job.candidates[0].to_string())).collect()
    }

    #[test]
    fn what_is_tunable_is_tuned_first() {
        let job = |stage, name: &str| (stage, format!("{name}:"));
        let all = Choice::default();
        let (perf, find) = (Stage::Perf, Stage::Find);
        assert_eq!(planned(&all, &Stage::ALL), [job(perf, "ConvAsm1x1U"), job(find, "GemmFwdRest")]);
        assert_eq!(planned(&all, &[perf]), [job(perf, "ConvAsm1x1U")]);
        assert_eq!(planned(&all, &[find]), [job(find, "ConvAsm1x1U"), job(find, "GemmFwdRest")]);
        let tunable = Choice { tunable: true, ..Choice::default() };
        assert_eq!(planned(&tunable, &Stage::ALL), [job(perf, "ConvAsm1x1U")]);
    }

    #[test]
    fn the_driver_is_asked_once_for_a_problem() {
        let any = of_driver(&session(), &problem(), &[]);
        assert_eq!((any.stage, any.toolchain.as_str(), any.candidates.len()), (Stage::Find, "miopendriver", 1));
        assert_eq!(any.candidates[0].solver, ANY_SOLVER);
        let named = of_driver(&session(), &problem(), &["a".to_string(), "b".to_string()]);
        assert_eq!(named.candidates.len(), 2);
        assert_ne!(any.id(), named.id());
    }
}
