//! What a plan file asks for, as the steps of a campaign.

use bluefin_common::clock::now_ms;
use bluefin_common::session::Budget;
use bluefin_exporter::{ExportRequest, FormatName};
use bluefin_miopen::solver::spelling;
use bluefin_producer::import::Import;
use bluefin_producer::input::Overrides;
use bluefin_producer::library::AddOptions;
use bluefin_producer::session::NewSession;
use bluefin_producer::solvers::Choice;

use super::{BudgetStep, EnqueueStep, ExportStep, ImportStep, PlanFile, SessionStep};
use crate::known::known;
use crate::machine::tools::Tools;
use crate::miopen::{AskFin, SolverSource, default_fin};
use crate::search::SearchArgs;
use crate::session::{BudgetArgs, notes};
use crate::whole::{Enqueue, Local, Steps};

impl PlanFile {
    /// Whether workers are run in this process though there is a fleet.
    #[must_use]
    pub fn waits_locally(&self) -> bool {
        self.wait.local
    }

    /// Its steps.
    ///
    /// # Errors
    /// A session that can not be planned so.
    pub fn steps(self) -> anyhow::Result<Steps> {
        let tags = self.tags();
        let from = self.session.from.clone();
        let compiles = self.solvers.as_ref().and_then(|step| step.fin.clone());
        let (fin_gpu, miopen_driver) = (self.wait.fin, self.wait.miopen_driver);
        let tools = Tools { fin: compiles, fin_gpu, miopen_driver }.or_environment();
        let source = |fin: Option<_>| SolverSource::Fin(fin.unwrap_or_else(default_fin));
        Ok(Steps {
            import: self.import.into_iter().map(ImportStep::import).collect(),
            session: self.session.new_session()?.wanted(&known().planners())?,
            from,
            solvers: self.solvers.map(|step| step.from.map_or_else(|| source(step.fin), SolverSource::Answer)),
            applicability: self.applicability.map(|step| AskFin {
                fin: step.fin.unwrap_or_else(default_fin),
                processes: step.processes,
                again: false,
            }),
            enqueue: Enqueue { tags, ..self.enqueue.enqueue() },
            local: Local { compile_slots: self.wait.compile_slots, tools },
            export: self.export.map(ExportStep::request),
            check: self.check.map(|step| step.allow.iter().map(|rule| rule.0).collect()),
        })
    }
}

impl ImportStep {
    /// What is imported, and whether wrong lines are no failure.
    fn import(self) -> (Import, bool) {
        let import = Import {
            tag: self.tag.0,
            files: self.files,
            overrides: Overrides {
                batchsizes: self.batches.iter().map(|batch| batch.get()).collect(),
                directions: None,
                data_type: self.command.map(|precision| precision.0.data_type()),
            },
            only: self.config_type.map(|kind| kind.0.only()),
            options: AddOptions { recurrent: self.mark_recurrent, known_only: self.tag_only, now_ms: now_ms() },
        };
        (import, self.allow_rejects)
    }
}

impl SessionStep {
    fn new_session(self) -> anyhow::Result<NewSession> {
        let search = SearchArgs {
            search: self.search.map(|search| search.0),
            search_seed: self.search_seed,
            search_option: self.search_options.into_iter().collect(),
            patience: self.patience.map(|patience| patience.0),
            from: None,
        };
        Ok(NewSession {
            name: self.name.map(|name| name.0),
            method: self.tuner.map(|tuner| tuner.0.0),
            exhaustive: self.exhaustive,
            stages: self.stages.iter().map(|stage| stage.0.0).collect(),
            pins: notes([&self.rocm_v, &self.miopen_v, &self.docker_name, &self.ticket]),
            find_mode: self.find_mode,
            left_out: self.blacklist.iter().map(|algorithm| algorithm.0.name()).collect(),
            search: search.of_fleet()?,
            budget: self.budget.budget(),
            ..NewSession::of(&self.label, self.target.0)
        })
    }
}

impl BudgetStep {
    fn budget(&self) -> Budget {
        let args = BudgetArgs {
            solver_budget: self.solver.map(|time| time.0),
            problem_budget: self.problem.map(|time| time.0),
            session_budget: self.session.map(|time| time.0),
            tuning_time: self.tuning_time.map(|time| time.0),
            tuning_patience: self.tuning_patience,
            tuning_iterations: self.tuning_iterations,
        };
        args.budget()
    }
}

impl EnqueueStep {
    /// Without its tags.
    fn enqueue(self) -> Enqueue {
        Enqueue {
            tags: Vec::new(),
            stages: self.stages.iter().map(|stage| stage.0.0).collect(),
            choice: Choice {
                names: self.solvers.iter().map(|name| spelling(name)).collect(),
                algorithm: self.algorithm.map(|algorithm| algorithm.0),
                tunable: self.tunable,
                dynamic: self.dynamic_only,
            },
            budget: self.candidates.map(|budget| budget.0),
            time: self.time.map(|time| time.0),
            kernels: self.kernels,
            with: self.with,
            priority: self.priority,
        }
    }
}

impl ExportStep {
    fn request(self) -> ExportRequest {
        let names: Vec<FormatName> = self.files.iter().map(|named| named.0.0).collect();
        ExportRequest {
            formats: known().formats.chosen(&names),
            top: (self.top > 0).then_some(self.top),
            ..ExportRequest::all(self.out)
        }
    }
}
