//! One compile queue: takes deliveries while there is room for what becomes of them, and settles each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use bluefin_common::broker::{Broker, BrokerError, Delivery, Settle};
use bluefin_common::delivery::{
    self, Begun, GivenUp, Intake, NOT_MINE, OTHER_VERSION, Passing as _, Patience, STILL_AT_WORK, Verdict,
};
use bluefin_common::job::{CompileJob, compile_queue, eval_queue, previous_compile_queue};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::target::Target;
use bluefin_common::waiting::{Guard, On};
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use tracing::Instrument as _;

use crate::error::Error;
use crate::job::Done;
use crate::toolchain::Toolchain;
use crate::worker::Worker;

/// How long a job stays away that came to nothing through this machine: others may do it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// How often that is doubled for one that says each time that the machine is at its end, while that is well.
const DOUBLED: u32 = 5;
/// Between two attempts to consume a queue.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A compile queue of one toolchain.
pub(crate) struct Queue {
    pub(crate) worker: Arc<Worker>,
    pub(crate) toolchain: Arc<dyn Toolchain>,
    pub(crate) jobs_of: JobsOf,
}

/// Whose jobs wait in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobsOf {
    Target(Target),
    /// Those of all targets, where the release before put them. What is not to be compiled here and now goes on to the queue of
    /// its own, so that this one runs dry.
    ReleaseBefore,
}

impl Queue {
    /// Serves it until the worker is to stop, then drains.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let queue = Arc::new(self);
        let served = queue.serve(&mut tasks).await;
        // Of all queues, whatever ended this one.
        let end = &queue.worker.end;
        end.stop.cancel();
        served.and(delivery::drain(&mut tasks, queue.worker.config.grace, &end.abandon, ended).await)
    }

    fn name(&self) -> String {
        match &self.jobs_of {
            JobsOf::Target(target) => compile_queue(self.toolchain.name(), target),
            JobsOf::ReleaseBefore => previous_compile_queue(self.toolchain.name()),
        }
    }

    /// Where its jobs are evaluated, if that is one queue.
    fn evaluated_in(&self) -> Option<String> {
        let JobsOf::Target(target) = &self.jobs_of else { return None };
        Some(eval_queue(target, Method::of_toolchain(self.toolchain.name()).unwrap_or_default()))
    }

    async fn serve(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Result<(), Error> {
        let Worker { config, end, jobs, .. } = &*self.worker;
        let (name, evaluated_in) = (self.name(), self.evaluated_in());
        if let Some(queue) = &evaluated_in {
            jobs.gate.watch(queue);
        }
        jobs.presence.takes_from(&name);
        let Some(mut intake) = self.open(&name).await? else { return Ok(()) };
        tracing::info!(
            worker = config.name,
            queue = name,
            compiler = self.toolchain.identity(),
            slots = config.slots,
            "serving"
        );
        loop {
            tokio::select! {
                biased;
                () = end.stop.cancelled() => break,
                Some(done) = tasks.join_next() => {
                    ended(done)?;
                    // What it could not do is done below.
                    let _ = end.stop.run_until_cancelled(intake.proven()).await;
                    self.resume(&mut intake).await?;
                }
                () = self.is_held_up(evaluated_in.as_deref()) => {
                    intake.pause().await;
                    jobs.presence.held_up(&name, Some("its evaluation has as much as it takes, or the artifact cache is full"));
                    let goes_on = self.goes_on(evaluated_in.as_deref());
                    if end.stop.run_until_cancelled(goes_on).await.is_none() { break };
                    jobs.presence.held_up(&name, None);
                    self.resume(&mut intake).await?;
                }
                delivery = self.next(&mut intake) => {
                    let Some(delivery) = delivery else { break };
                    let Some(in_hand) = self.worker.takes() else {
                        // Another queue had the last one. Where it can not be handed back, a drain waits no longer than it does.
                        let queue = Arc::clone(self);
                        tasks.spawn(async move { queue.hand_back(delivery).await });
                        break;
                    };
                    // Counts as one beside its units, so that a full queue is not taken at once.
                    let waiting = jobs.workshop.waiting();
                    let queue = Arc::clone(self);
                    let span = tracing::info_span!("job", message = delivery.message_id);
                    let work = async move {
                        queue.handle(delivery).await;
                        drop((waiting, in_hand));
                    };
                    tasks.spawn(work.instrument(span));
                }
            }
        }
        intake.pause().await;
        Ok(())
    }

    /// The next delivery, once there is room for it.
    async fn next(&self, intake: &mut Intake) -> Option<Delivery> {
        self.worker.jobs.workshop.backlog().below(self.worker.config.backlog).await;
        intake.next().await
    }

    /// Returns when nothing is to be taken for now.
    async fn is_held_up(&self, evaluated_in: Option<&str>) {
        if self.toolchain.roomy().now_or_never().is_none() {
            return;
        }
        let closed = async {
            match evaluated_in {
                Some(queue) => self.worker.jobs.gate.closed(queue).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.worker.waiting.begins() => {}
            () = closed => {}
        }
    }

    /// Returns when nothing stands in the way any more.
    async fn goes_on(&self, evaluated_in: Option<&str>) {
        let (waiting, gate) = (&self.worker.waiting, &self.worker.jobs.gate);
        loop {
            self.toolchain.roomy().await;
            if let Some(queue) = evaluated_in {
                gate.opened(queue).await;
            }
            waiting.over().await;
            if evaluated_in.is_none_or(|queue| gate.is_open(queue)) {
                return;
            }
        }
    }

    /// Begins to consume, again and again while the broker is away; `None` if the worker is to stop meanwhile.
    async fn open(&self, name: &str) -> Result<Option<Intake>, Error> {
        let Worker { config, jobs, end, .. } = &*self.worker;
        let mut again = self.again();
        loop {
            match end.stop.run_until_cancelled(Intake::open(&jobs.broker, name, config.prefetch)).await {
                None => return Ok(None),
                Some(Ok(intake)) => return Ok(Some(intake)),
                Some(Err(error)) => again.later(error).await?,
            }
        }
    }

    /// The same for one that may be paused.
    async fn resume(&self, intake: &mut Intake) -> Result<(), Error> {
        let mut again = self.again();
        loop {
            match self.worker.end.stop.run_until_cancelled(intake.resume()).await {
                None | Some(Ok(())) => return Ok(()),
                Some(Err(error)) => again.later(error).await?,
            }
        }
    }

    fn again(&self) -> Again<'_> {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .without_max_times()
            .build();
        Again { worker: &self.worker, pauses, waiting: None }
    }

    async fn hand_back(&self, delivery: Delivery) {
        if let Err(error) = delivery.hand_back(Duration::ZERO).await {
            tracing::warn!(%error, "delivery not settled; it comes again");
        }
    }

    /// Does one delivery and settles it, whatever comes of it.
    async fn handle(&self, delivery: Delivery) {
        let jobs = &self.worker.jobs;
        let pipeline = &jobs.metrics.pipeline;
        let _in_flight = pipeline.in_flight(Step::Compile);
        let Some((mut compile_job, delivery)) = delivery::open::<CompileJob>(delivery, Some(pipeline)).await else {
            return;
        };
        compile_job.job.lane = Lane::split(&delivery.queue).1;
        let job = &compile_job.job;
        let (delivery, is_for_now) = match self.jobs_of {
            JobsOf::Target(_) => (delivery, true),
            JobsOf::ReleaseBefore => {
                let served = self.worker.serves(self.toolchain.name(), &job.target);
                (self.moved(delivery, job.compile_queue()), served && jobs.gate.is_open(&job.eval_queue()))
            }
        };
        let verdict =
            if is_for_now { self.verdict(&compile_job, &delivery).await } else { Verdict::HandBack(Duration::ZERO) };
        delivery::settle(delivery, (Step::Compile, job.stage), verdict, (pipeline, &jobs.presence)).await;
    }

    /// `delivery`, which goes to `queue` if it is handed back.
    fn moved(&self, delivery: Delivery, queue: String) -> Delivery {
        let (broker, settle) = (Arc::clone(&self.worker.jobs.broker), delivery.settle);
        let (message_id, body) = (delivery.message_id.clone(), delivery.body.clone());
        Delivery { settle: Box::new(Moved { broker, settle, queue, message_id, body }), ..delivery }
    }

    async fn verdict(&self, compile_job: &CompileJob, delivery: &Delivery) -> Verdict {
        let jobs = &self.worker.jobs;
        let _at_work = jobs.presence.works_on(&compile_job.job);
        let Some(_hold) = self.worker.at_work.take_up(delivery) else { return Verdict::HandBack(STILL_AT_WORK) };
        // Held to the end: what kills the worker while a suspect has it is that job.
        let turn = self.worker.at_work.turn(delivery);
        let Some(_turn) = self.worker.end.abandon.run_until_cancelled(turn).await else {
            return Verdict::HandBack(Duration::ZERO);
        };
        let begin = || jobs.begin(&*self.toolchain, compile_job, delivery);
        let begun = match self.patience().with_error("begin compile job", begin).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Verdict::Ack(Settled::Skipped),
            Err((given_up, error)) => return self.not_done(compile_job, given_up, error).await,
        };
        let verdict = match begun {
            Begun::Now => self.process(compile_job).await,
            Begun::TooOften(workers) => {
                let reason = format!("{workers} workers died while they worked on it");
                match self.give_up(compile_job, reason).await {
                    dead @ Verdict::Dead(_) => dead,
                    // It stays counted until that can be done.
                    later => return later,
                }
            }
            Begun::Worn => return Verdict::HandBack(Duration::ZERO),
        };
        if let Err(error) = delivery::spare(jobs.store(), delivery, &compile_job.job).await {
            tracing::warn!(%error, "a job that this worker outlived is still counted as one that it did not");
        }
        verdict
    }

    /// Does a job, again and again while broker or store is away. Dropping the work kills its compilers.
    async fn process(&self, compile_job: &CompileJob) -> Verdict {
        let jobs = &self.worker.jobs;
        match self.patience().with_error("compile job", || jobs.process(&*self.toolchain, compile_job)).await {
            Ok(Done::Passed) => {
                jobs.machine.passed();
                Verdict::Ack(Settled::Done)
            }
            Ok(Done::Skipped) => Verdict::Ack(Settled::Skipped),
            Ok(Done::NotMine) => {
                jobs.metrics.pipeline.refused(Step::Compile);
                Verdict::HandBack(NOT_MINE)
            }
            Ok(Done::Newer) => Verdict::HandBack(OTHER_VERSION),
            Err((given_up, error)) => self.not_done(compile_job, given_up, error).await,
        }
    }

    fn patience(&self) -> &Patience {
        &self.worker.patience
    }

    /// What becomes of a job that came to nothing.
    async fn not_done(&self, compile_job: &CompileJob, given_up: GivenUp, error: Option<Error>) -> Verdict {
        let end = &self.worker.end;
        match (given_up, error) {
            (GivenUp::Failed(_) | GivenUp::Lost, Some(error)) if error.ends_worker() => {
                end.now(error);
                Verdict::HandBack(Duration::ZERO)
            }
            (GivenUp::Failed(_), Some(error)) if error.is_of_job() => {
                self.give_up(compile_job, error.to_string()).await
            }
            (GivenUp::Failed(_), Some(error)) if error.is_of_machine() => {
                // A drain by whoever ends all that runs here ends compilers as well.
                if end.stop.is_cancelled() {
                    return Verdict::HandBack(Duration::ZERO);
                }
                // What a unit says of itself holds up no other.
                if let Error::Unproven { times, .. } = error {
                    return Verdict::later(PAUSE * 2_u32.pow(times.min(DOUBLED)), error);
                }
                let verdict = Verdict::later(PAUSE, &error);
                self.worker.jobs.machine.doubt(error);
                verdict
            }
            (given_up, _) => given_up.into(),
        }
    }

    /// The outcome first: a session must not wait for a job that is among the dead letters.
    async fn give_up(&self, compile_job: &CompileJob, reason: String) -> Verdict {
        let jobs = &self.worker.jobs;
        match self.patience().with_error("give up compile job", || jobs.give_up(compile_job, &reason)).await {
            Ok(()) => Verdict::Dead(reason),
            Err((GivenUp::Failed(_) | GivenUp::Lost, Some(error))) if error.ends_worker() => {
                self.worker.end.now(error);
                Verdict::HandBack(Duration::ZERO)
            }
            // Not even its outcome can be written.
            Err((GivenUp::Failed(_), Some(error))) if error.is_of_job() => {
                Verdict::Dead(format!("{reason}; no outcome: {error}"))
            }
            Err((GivenUp::Failed(_), Some(error @ Error::OpenRound))) => Verdict::later(NOT_MINE, error),
            Err((given_up, _)) => given_up.into(),
        }
    }
}

/// Waits for a broker that is away.
struct Again<'a> {
    worker: &'a Worker,
    pauses: ExponentialBackoff,
    waiting: Option<Guard>,
}

impl Again<'_> {
    /// Waits until it is time to try again what came to `error`, or the worker is to stop.
    async fn later(&mut self, error: BrokerError) -> Result<(), Error> {
        if !error.is_transient() {
            return Err(error.into());
        }
        match &self.waiting {
            Some(guard) => guard.still(error.to_string()),
            // Other queues go on meanwhile.
            None if !error.holds_up_all() => {
                self.waiting = Some(self.worker.waiting.aside().on(On::Broker, error.to_string()));
            }
            None => self.waiting = Some(self.worker.waiting.on(On::Broker, error.to_string())),
        }
        let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
        self.worker.end.stop.run_until_cancelled(sleep(pause)).await;
        Ok(())
    }
}

/// Hands a delivery back to another queue than the one that it came from.
struct Moved {
    broker: Arc<dyn Broker>,
    settle: Box<dyn Settle>,
    queue: String,
    message_id: String,
    body: Bytes,
}

#[async_trait]
impl Settle for Moved {
    async fn ack(&self) -> Result<(), BrokerError> {
        self.settle.ack().await
    }

    async fn republish(&self, delay: Duration) -> Result<(), BrokerError> {
        self.broker.declare(&self.queue).await?;
        self.broker.publish_after(delay, &self.queue, &self.message_id, self.body.clone()).await?;
        self.settle.ack().await
    }

    async fn dead(&self, reason: &str) -> Result<(), BrokerError> {
        self.settle.dead(reason).await
    }
}

/// A task that fell over loses its delivery, which comes again and is counted.
fn ended(done: Result<(), JoinError>) -> Result<(), Error> {
    if let Err(error) = done {
        tracing::error!(%error, "a job was lost by its task");
    }
    Ok(())
}
