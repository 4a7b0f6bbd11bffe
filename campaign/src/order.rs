//! A campaign as one call: its jobs are planned and enqueued, workers are started where it is carried out here, and it is waited
//! for until all is done.

use std::collections::HashSet;
use std::sync::Arc;

use bluefin_common::outcome::Outcome;
use bluefin_common::priority::{self, Priority};
use bluefin_common::problem::Problem;
use bluefin_common::retry::{self, Failures};
use bluefin_common::session::Session;
use bluefin_common::spelled::counted;
use bluefin_common::store::Progress;
use bluefin_eval_worker::Evaluator;
use bluefin_producer::enqueue::{Publish, Ways, enqueue};
use bluefin_producer::plan::{Asked, Plan, Planning};
use bluefin_producer::{Metrics, request};
use prometheus::Registry;

use crate::carry::{Ended, Watch};
use crate::forgotten;
use crate::known::known;
use crate::machine::local::{Compilers, LocalDevice};
use crate::machine::tools::LocalTools;
use crate::priors;
use crate::site::Site;
use crate::stretches::Stretch;
use crate::timed::{TimeLimit, Timed};

/// Candidates for each compiler of this machine that are under way at a time: one is compiled, and others wait for that or for a device.
const WAITING: usize = 2;

/// What a campaign is to do.
pub struct Order<'a> {
    /// Made where there is none of its name.
    pub session: Session,
    /// To be tuned.
    pub problems: Vec<Problem>,
    /// What was not taken for a problem.
    pub rejects: Vec<String>,
    /// Which jobs there are.
    pub jobs: Jobs<'a>,
    /// How much the session matters from now on beside others of a fleet.
    pub priority: Option<Priority>,
    /// Jobs that are known to be in a queue are published again.
    pub again: bool,
    /// Jobs whose candidates failed are planned again.
    pub retry_failed: bool,
    /// How long its searches may take, whatever the budget. `None`: as far as the budget goes.
    pub time: Option<TimeLimit>,
}

/// Which jobs a campaign has.
pub enum Jobs<'a> {
    /// Those that the planner of the session's method makes of this. It is kept with the session.
    Asked(&'a Asked),
    /// Those that are given.
    Given(&'a dyn Planning),
}

impl<'a> Order<'a> {
    /// Jobs for `problems`, as they are `asked` for.
    pub fn of(session: Session, problems: Vec<Problem>, asked: &'a Asked) -> Self {
        Self::with(session, problems, Jobs::Asked(asked))
    }

    /// Those jobs for `problems` that `planning` gives.
    pub fn given(session: Session, problems: Vec<Problem>, planning: &'a dyn Planning) -> Self {
        Self::with(session, problems, Jobs::Given(planning))
    }

    /// What is asked of workers of this machine, whose compilers are not to wait for devices where few problems are searched.
    fn as_asked_of(&self, workers: &Workers) -> Option<Asked> {
        let (Jobs::Asked(asked), Workers::Device(compilers, _)) = (&self.jobs, workers) else { return None };
        let under_way = WAITING * compilers.slots() / self.problems.len().max(1);
        Some(Asked { under_way, ..(*asked).clone() })
    }

    fn with(session: Session, problems: Vec<Problem>, jobs: Jobs<'a>) -> Self {
        Self {
            session,
            problems,
            rejects: Vec::new(),
            jobs,
            priority: None,
            again: false,
            retry_failed: false,
            time: None,
        }
    }
}

/// Who does the jobs.
pub enum Workers {
    /// Those of a fleet.
    Fleet,
    /// Compilers and devices of this machine.
    Device(Compilers, LocalDevice),
    /// MIOpen's tools on this machine.
    Tools(LocalTools),
    /// These, each with a device of its own.
    Evaluators(Vec<Arc<dyn Evaluator>>),
}

/// A campaign that was carried out.
pub struct CarriedOut {
    /// What was planned.
    pub plan: Plan,
    /// How it ended.
    pub end: End,
    /// What each stretch of its time bought, where it had a limit.
    pub bought: Vec<Stretch>,
}

/// How a campaign ended.
pub enum End {
    /// There was no job.
    Nothing,
    /// Everything had been done before.
    DoneBefore,
    /// Everything is done; how busy the devices of this machine were, in words.
    Complete(Option<String>),
    /// By a signal.
    Interrupted,
}

impl Site {
    /// Carries out `order`, and tells `watch` how far it is.
    ///
    /// # Errors
    /// If the session is another one, a worker of this process ends before it is complete, or store or broker fail.
    pub async fn carry_out(
        &self,
        order: Order<'_>,
        workers: Workers,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<CarriedOut> {
        let asked = order.as_asked_of(&workers);
        let order = match &asked {
            Some(asked) => Order { jobs: Jobs::Asked(asked), ..order },
            None => order,
        };
        // On the heap: a caller's future would be as deep as all that is done here.
        if order.time.is_some() {
            return Box::pin(self.carry_out_in_time(order, workers, watch)).await;
        }
        match Box::pin(self.begin(order, watch)).await? {
            Some(begun) => Box::pin(begun.finish(workers, watch)).await,
            None => Ok(CarriedOut { plan: Plan::default(), end: End::Interrupted, bought: Vec::new() }),
        }
    }

    /// The same, whose searches end after a time.
    async fn carry_out_in_time(
        &self,
        mut order: Order<'_>,
        workers: Workers,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<CarriedOut> {
        let (Jobs::Asked(asked), Some(limit)) = (&order.jobs, order.time.take()) else {
            anyhow::bail!("session {}: its jobs are given, so that no time says which there are", order.session.name)
        };
        let (store, session, problems) = (&*self.ports.store, order.session.clone(), order.problems.clone());
        let timed = Timed::new(&self.ports, &session, &problems, asked, limit)?;
        let (planners, first) = (known().planners(), timed.first());
        let planning = planners.begin(store, &session, &first).await?;
        priors::told(store, &session, &first, &problems).await?.iter().for_each(|line| watch.say(line));
        request::keep(store, &session, timed.asked(), &problems).await?;
        let order = Order { jobs: Jobs::Given(&*planning), ..order };
        let Some(begun) = Box::pin(self.begin(order, watch)).await? else {
            return Ok(CarriedOut { plan: Plan::default(), end: End::Interrupted, bought: Vec::new() });
        };
        let end = match begun.plan.jobs {
            0 => End::Nothing,
            _ => begun.wait(workers, watch, async |progress| timed.step(progress).await).await?,
        };
        Ok(CarriedOut { plan: begun.plan, end, bought: timed.bought().await? })
    }

    /// Plans the jobs of `order` and enqueues what is missing, for workers that are yet to begin. `None`: a signal came first.
    pub(crate) async fn begin(&self, order: Order<'_>, watch: &mut dyn Watch) -> anyhow::Result<Option<Begun<'_>>> {
        let (session, registry) = (order.session.clone(), self.registry());
        let planned = async {
            if let Some(file) = self.own_file() {
                forgotten::forget(file, &session.name).await?;
            }
            self.plan_in(order, &registry, watch).await
        };
        let Some(plan) = self.shutdown.run_until_cancelled(planned).await else { return Ok(None) };
        Ok(Some(Begun { plan: plan?, site: self, session, registry }))
    }

    /// Plans the jobs of `order` and enqueues what is missing; the same again continues where this one ended.
    ///
    /// # Errors
    /// If the session is another one, or store or broker fail.
    pub async fn plan(&self, order: Order<'_>, watch: &mut dyn Watch) -> anyhow::Result<Plan> {
        self.plan_in(order, &self.registry(), watch).await
    }

    pub(crate) async fn plan_in(
        &self,
        order: Order<'_>,
        registry: &Registry,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Plan> {
        let Order { session, problems, rejects, jobs, priority, again, retry_failed, time: _ } = order;
        let (store, broker) = (&*self.ports.store, &*self.ports.broker);
        let metrics = Metrics::register(registry)?;
        metrics.rejected(rejects.len() as u64);
        let planners = known().planners();
        let begun;
        let planning = match jobs {
            Jobs::Given(planning) => planning,
            Jobs::Asked(asked) => {
                begun = planners.begin(store, &session, asked).await?;
                priors::told(store, &session, asked, &problems).await?.iter().for_each(|line| watch.say(line));
                request::keep(store, &session, asked, &problems).await?;
                &*begun
            }
        };
        if let Some(priority) = priority {
            priority::prioritize(store, &session.name, priority).await?;
        }
        if retry_failed {
            let taken = self.take_back_failed(&session, &problems).await?;
            watch.say(&format!("planned again, as it had failed: {}", counted(taken, "job")));
        }
        // Queues of this process were empty when it began.
        let publish = if again || !self.is_fleet() { Publish::Unfinished } else { Publish::Missing };
        if let Some(file) = self.own_file() {
            forgotten::try_again(file, broker, &session.name).await?;
        }
        let ways = Ways { store, broker, metrics: &metrics, publish };
        let plan = Plan { rejects, ..enqueue(&ways, &session, planning, problems).await? };
        if let Some(file) = self.own_file() {
            forgotten::replan(file, &session.name, &plan.groups).await?;
        }
        watch.planned(&plan);
        Ok(plan)
    }

    async fn take_back_failed(&self, session: &Session, problems: &[Problem]) -> anyhow::Result<u64> {
        let (store, broker) = (&*self.ports.store, &*self.ports.broker);
        let named: HashSet<&Problem> = problems.iter().collect();
        let failed = |outcome: &Outcome| Failures::Any.include(outcome) && named.contains(&outcome.job.problem);
        let taken = retry::take_back(store, &session.name, true, failed).await?;
        retry::publish(store, broker, &session.name).await?;
        Ok(taken)
    }
}

/// A campaign whose jobs are in the queues.
pub(crate) struct Begun<'a> {
    pub plan: Plan,
    site: &'a Site,
    session: Session,
    registry: Registry,
}

impl Begun<'_> {
    /// Has `workers` do what is left, and waits until all is done.
    pub(crate) async fn finish(self, workers: Workers, watch: &mut dyn Watch) -> anyhow::Result<CarriedOut> {
        let settled = async || anyhow::Ok(self.site.ports.store.progress(&self.session.name).await?.is_settled());
        let end = if self.plan.jobs == 0 {
            End::Nothing
        } else if self.plan.enqueued == 0 && settled().await? {
            // A play-off that was interrupted follows from outcomes alone: nothing may have been enqueued, and much be left.
            End::DoneBefore
        } else {
            self.wait(workers, watch, async |progress| Ok(progress.is_settled())).await?
        };
        Ok(CarriedOut { plan: self.plan, end, bought: Vec::new() })
    }

    async fn wait(
        &self,
        workers: Workers,
        watch: &mut dyn Watch,
        complete: impl AsyncFn(&Progress) -> anyhow::Result<bool>,
    ) -> anyhow::Result<End> {
        let mut running = self.site.running(&self.session, &self.registry)?;
        let utilisation = match workers {
            Workers::Fleet => None,
            Workers::Device(compilers, device) => Some(running.work(compilers, device)?),
            Workers::Tools(tools) => {
                running.use_tools(tools)?;
                None
            }
            Workers::Evaluators(evaluators) => {
                running.evaluate_on(evaluators)?;
                None
            }
        };
        Ok(match running.wait(watch, complete).await? {
            Ended::Complete => End::Complete(utilisation.map(|utilisation| utilisation.to_string())),
            Ended::Interrupted => End::Interrupted,
        })
    }
}
