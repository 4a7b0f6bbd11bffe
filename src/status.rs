//! `bluefin status`: how far sessions are, what waits, what failed, and why nothing moves.

pub use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::queues::possible_queues;
use bluefin_campaign::queues::queue_names;
use bluefin_campaign::why;
use bluefin_campaign::why::Fleet;
use bluefin_common::broker::Broker;
use bluefin_common::clock::now_ms;
use bluefin_common::roster;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::spelled::human;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Progress, Store};
use bluefin_terminal::colour;
use bluefin_terminal::colour::Tone;
use bluefin_terminal::out;
use bluefin_terminal::width;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use tokio::time::timeout;

/// For broker or store to answer one question. Of a fleet at work there are many, each with an answer sooner or later.
const REACH: Duration = Duration::from_secs(3);

/// Jobs of a session that are named as what runs now.
const RUNNING: usize = 3;

/// Show how far sessions are, and why one does not move
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin status --watch\n  bluefin status --session nightly --json\n  \
    bluefin status --state bluefin.db\n\n\
    Exit code 1 where broker or store do not answer: what is known is printed all the same, and \"away\" says why.")]
pub struct StatusArgs {
    /// Only this session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Show again every second until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Serialize)]
struct Status {
    sessions: Vec<SessionStatus>,
    /// Messages that wait, by queue; absent without a broker.
    queues: Option<BTreeMap<String, u64>>,
    /// What of broker and store does not answer, which says nothing of what they hold.
    away: Vec<String>,
}

#[derive(Serialize)]
struct SessionStatus {
    #[serde(flatten)]
    session: Session,
    pins: Pins,
    #[serde(flatten)]
    progress: Progress,
    complete: bool,
    /// What keeps it from moving.
    why: Vec<String>,
    standing: Standing,
    /// Seconds that what is left takes its devices at least, where that can be said.
    left_s: Option<u64>,
    /// What its workers are at.
    running: Vec<Running>,
}

#[derive(Serialize)]
struct Running {
    worker: String,
    step: String,
    problem: String,
    /// Job id.
    job: String,
    seconds: u64,
}

impl StatusArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        // A file is there or not. Of a fleet each is asked for when it is needed, so that the other is shown though one is away.
        let store = if self.store.in_file() { Some(self.store.open_to_read().await?.store) } else { None };
        let mut ports = Connected { store, broker: None };
        let away = loop {
            let status = self.gather(&mut ports).await?;
            if self.json {
                out::json(&status)?;
            } else {
                // Clears the terminal and puts the cursor home.
                let text = status.tables();
                if self.watch {
                    out::line(format_args!("\x1b[2J\x1b[H{}", width::top_of(text.trim_end())))?;
                } else {
                    out::line(text.trim_end())?;
                }
            }
            if !self.watch {
                break !status.away.is_empty();
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = tokio::signal::ctrl_c() => break false,
            }
        };
        if let Some(broker) = ports.broker {
            broker.close().await;
        }
        Ok(if away { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What can be had of those that answer within a few seconds.
    async fn gather(&self, ports: &mut Connected) -> anyhow::Result<Status> {
        let mut away = Vec::new();
        let sessions = answer(self.sessions(&mut ports.store), &mut away).await?;
        if let (Some(name), Some([])) = (&self.session, sessions.as_deref()) {
            anyhow::bail!("session {name}: there is none of that name");
        }
        let sessions = sessions.unwrap_or_default();
        let mut queues = None;
        let mut fleet = Fleet { now_ms: now_ms(), ..Fleet::default() };
        if self.store.fleet.names_a_broker() {
            let usual = queue_names(sessions.iter().map(|status| (&status.session, &status.pins)));
            let open = sessions.iter().filter(|status| !status.progress.is_settled());
            let possible: BTreeSet<String> = open.flat_map(|status| possible_queues(&status.session)).collect();
            let all = usual.union(&possible).cloned().collect();
            fleet.depths = answer(self.queues(&mut ports.broker, all), &mut away).await?;
            if let Some(store) = &ports.store {
                fleet.roster = answer(within("store", roster::read(&**store)), &mut away).await?;
            }
            if let Some(broker) = &ports.broker {
                let missing = sessions.iter().filter(|status| fleet.misses_jobs(&status.session, &status.progress));
                let names = missing.flat_map(|status| possible_queues(&status.session)).collect();
                // Worth a look, and no more: a broker that takes its time is not away for that.
                if let Ok(found) = timeout(REACH, why::delayed(&**broker, names)).await {
                    fleet.delayed = found.unwrap_or_default();
                }
            }
            queues = fleet.depths.clone();
            queues.iter_mut().for_each(|depths| depths.retain(|name, depth| usual.contains(name) || *depth > 0));
        }
        let sessions = sessions.into_iter().map(|status| status.explained(&fleet)).collect();
        Ok(Status { sessions, queues, away })
    }

    async fn sessions(&self, store: &mut Option<Arc<dyn Store>>) -> anyhow::Result<Vec<SessionStatus>> {
        let store = match store {
            Some(store) => store,
            None => store.insert(within("store", self.store.open_to_read()).await?.store),
        };
        let standings = within("store", standing::all(&**store)).await?;
        let mut sessions = Vec::new();
        for session in within("store", store.sessions()).await? {
            if self.session.as_ref().is_some_and(|only| *only != session.name) {
                continue;
            }
            let progress = within("store", store.progress(&session.name)).await?;
            let pins = within("store", store.pins(&session.name)).await?;
            let standing = standings.get(&session.name).copied().unwrap_or_default();
            let (why, left_s, running) = (Vec::new(), None, Vec::new());
            sessions.push(SessionStatus {
                complete: progress.is_complete(),
                session,
                pins,
                progress,
                why,
                standing,
                left_s,
                running,
            });
        }
        Ok(sessions)
    }

    async fn queues(
        &self,
        broker: &mut Option<Arc<dyn Broker>>,
        names: BTreeSet<String>,
    ) -> anyhow::Result<BTreeMap<String, u64>> {
        let broker = match broker {
            Some(broker) => broker,
            None => broker.insert(within("broker", self.store.fleet.broker()).await?),
        };
        let mut depths = BTreeMap::new();
        for name in names {
            let depth = within("broker", broker.depth(&name)).await?;
            depths.insert(name, depth);
        }
        Ok(depths)
    }
}

/// What is asked for, or why there is no answer, among what is `away`.
async fn answer<T>(
    asked: impl Future<Output = anyhow::Result<T>>,
    away: &mut Vec<String>,
) -> anyhow::Result<Option<T>> {
    match asked.await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if crate::is_usage(&error) => Err(error),
        Err(error) => {
            away.push(error.to_string());
            Ok(None)
        }
    }
}

/// One answer of `port`, which has [`REACH`] for it.
async fn within<T, E: Into<anyhow::Error>>(port: &str, asked: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
    match timeout(REACH, asked).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => anyhow::bail!("{port}: no answer within {} s", REACH.as_secs()),
    }
}

/// The ports that have answered.
struct Connected {
    store: Option<Arc<dyn Store>>,
    broker: Option<Arc<dyn Broker>>,
}

impl SessionStatus {
    /// With what the fleet says of it.
    fn explained(self, fleet: &Fleet) -> Self {
        let Self { session, progress, .. } = &self;
        let why = match (self.standing, progress.is_settled()) {
            (Standing::Running, _) | (_, true) => fleet.why(session, progress),
            (standing, false) => vec![format!("it is {}: bluefin session resume {}", standing.name(), session.name)],
        };
        let left_s = fleet.left(session, progress).map(|left| left.as_secs());
        let running = fleet.doing(session).map(|(entry, doing)| Running {
            worker: entry.worker.clone(),
            step: entry.step.clone(),
            problem: doing.problem.clone(),
            job: doing.job.clone(),
            seconds: fleet.now_ms.saturating_sub(doing.since_ms) / 1000,
        });
        let running = running.collect();
        Self { why, left_s, running, ..self }
    }

    /// How far it is, or what keeps it.
    fn state(&self) -> &'static str {
        let settled = self.progress.is_settled();
        if self.standing == Standing::Running || settled { self.progress.state() } else { self.standing.name() }
    }

    fn tone(&self) -> Option<Tone> {
        match (self.progress.is_settled(), self.standing) {
            (true, _) => Some(Tone::Good),
            (false, Standing::Running) => None,
            (false, _) => Some(Tone::Waits),
        }
    }

    /// What runs now, and how long it takes still.
    fn notes(&self, text: &mut String) {
        let name = &self.session.name;
        for reason in &self.why {
            let line = colour::line(&format!("{name}: {reason}"), Tone::Waits);
            text.push_str(&format!("{line}\n"));
        }
        for Running { worker, step, problem, job, seconds } in self.running.iter().take(RUNNING) {
            let (job, verb) = (job.get(..8).unwrap_or(job), if step == "compile" { "compiles" } else { "evaluates" });
            text.push_str(&format!("{name}: {worker} {verb} {problem} (job {job}), {seconds}s\n"));
        }
        if self.running.len() > RUNNING {
            text.push_str(&format!("{name}: and {} jobs more in hand\n", self.running.len() - RUNNING));
        }
        if let Some(left_s) = self.left_s {
            text.push_str(&format!("{name}: at least {} left\n", human(Duration::from_secs(left_s))));
        }
    }
}

impl Status {
    fn tables(&self) -> String {
        let mut text = String::new();
        let mut table = width::table();
        table.set_header(["session", "target", "perf", "find", "groups", "timed", "pruned", "failed", "state"]);
        for status in &self.sessions {
            let progress = &status.progress;
            let jobs = |stage: &str| {
                let count = |counts: &BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
                format!("{}/{}", count(&progress.done), count(&progress.planned))
            };
            let candidates = |name: &str| progress.candidates.get(name).copied().unwrap_or(0);
            let failed = progress.candidates.values().sum::<u64>() - candidates("timed") - candidates("pruned");
            table.add_row([
                Cell::new(&status.session.name),
                Cell::new(&status.session.target),
                Cell::new(jobs("perf")),
                Cell::new(jobs("find")),
                Cell::new(format!("{}/{}", progress.groups - progress.unsettled_groups, progress.groups)),
                Cell::new(candidates("timed")),
                Cell::new(candidates("pruned")),
                colour::cell(failed, (failed > 0).then_some(Tone::Bad)),
                colour::cell(status.state(), status.tone()),
            ]);
        }
        for column in 2..8 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.push_str(&format!("{table}\n"));
        for status in &self.sessions {
            status.notes(&mut text);
        }
        for status in &self.sessions {
            for (kind, count) in &status.progress.candidates {
                if kind != "timed" && kind != "pruned" {
                    text.push_str(&format!("{}: {count} candidates failed: {kind}\n", status.session.name));
                }
            }
        }
        for (queue, depth) in self.queues.iter().flatten() {
            text.push_str(&format!("{depth:>8} {queue}\n"));
        }
        for reason in &self.away {
            let line = colour::line(&format!("away: {reason}"), Tone::Bad);
            text.push_str(&format!("{line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_slow_is_not_away() {
        tokio::time::pause();
        let asked = async |seconds| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            anyhow::Ok(1)
        };
        let ten = async {
            for _ in 0..10 {
                within("store", asked(2)).await?;
            }
            Ok(10)
        };
        let mut away = Vec::new();
        assert_eq!(answer(ten, &mut away).await.unwrap(), Some(10));
        assert_eq!(answer(within("broker", asked(4)), &mut away).await.unwrap(), None);
        assert_eq!(away, ["broker: no answer within 3 s"]);
    }
}
