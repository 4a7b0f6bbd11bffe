//! Which limits of a session's budget have an effect is a matter of its method: one that has none is refused, as somebody would
//! rely on it.

use bluefin_common::session::{Budget, Session};

use crate::PlanError;

pub(super) const SOLVER: &str = "--solver-budget";
pub(super) const PROBLEM: &str = "--problem-budget";
pub(super) const SESSION: &str = "--session-budget";

/// Refuses what is set of the budget of `session` and is none of those that its method `takes`.
pub(super) fn refuse_others(session: &Session, takes: &[&str]) -> Result<(), PlanError> {
    let Budget { solver_ms, problem_ms, session_ms, tuning_time_ms, tuning_patience, tuning_iterations } =
        session.budget;
    let limits = [
        (SOLVER, solver_ms),
        (PROBLEM, problem_ms),
        (SESSION, session_ms),
        ("--tuning-time", tuning_time_ms),
        ("--tuning-patience", tuning_patience),
        ("--tuning-iterations", tuning_iterations),
    ];
    match limits.into_iter().find(|(name, limit)| limit.is_some() && !takes.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(PlanError::Usage(format!(
            "{name}: has no effect with --tuner {}, which goes by {}",
            session.method,
            takes.join(" and ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::session::Stage;
    use bluefin_common::target::Target;

    use super::*;

    #[test]
    fn a_limit_without_effect_is_refused() {
        let plain = Session::of_kernels("s".parse().unwrap(), Target::Host, "", &Stage::ALL, 1);
        refuse_others(&plain, &[PROBLEM, SESSION]).unwrap();
        let budget = Budget { problem_ms: Some(1), ..Budget::default() };
        refuse_others(&Session { budget, ..plain.clone() }, &[PROBLEM, SESSION]).unwrap();
        let budget = Budget { tuning_patience: Some(1), ..Budget::default() };
        let error = refuse_others(&Session { budget, ..plain }, &[PROBLEM, SESSION]).unwrap_err();
        assert!(error.is_usage());
        assert_eq!(
            error.to_string(),
            "--tuning-patience: has no effect with --tuner kernels, which goes by --problem-budget and --session-budget"
        );
    }
}
