//! Shapes of aiter's operators as a campaign: each is a job of aiter's own tuner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bluefin_aiter::{ARGUMENTS, COMPARE, Sheet};
use bluefin_common::clock::now_ms;
use bluefin_common::digest::{self, Digest};
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_eval_worker::Evaluator;
use bluefin_exporter::format::aiter::AiterFormat;
use bluefin_exporter::{ExportRequest, export};
use bluefin_producer::plan::Asked;

use super::operators::{self, Measured};
use super::report::{self, Failed};
use crate::carry::Watch;
use crate::machine::evaluators::AiterArgs;
use crate::order::{End, Order, Workers};
use crate::site::Site;

/// How shapes are tuned.
pub struct Tuning<'a> {
    /// Where aiter is.
    pub aiter: &'a AiterArgs,
    /// What is tuned for.
    pub target: Target,
    /// GPUs of this machine to tune on; none: all of the target.
    pub devices: &'a [String],
    /// Longest time for one shape.
    pub limit: Duration,
    /// For aiter's tuners.
    pub arguments: String,
    /// Each operator is measured with its old row and its new one.
    pub compare: bool,
    /// Its name, if it is given.
    pub session: Option<&'a SessionName>,
    /// Folder for the rows that are found.
    pub rows: PathBuf,
}

/// What came of the shapes.
#[derive(Default)]
pub struct Tuned {
    /// A file of each family.
    pub rows: Vec<Sheet>,
    /// Those that no kernel was found for.
    pub failed: Vec<Failed>,
    /// Where they are compared.
    pub operators: Vec<Measured>,
}

/// What the first GPU of this machine is.
///
/// # Errors
/// If there is none.
pub fn local_target(aiter: &AiterArgs) -> anyhow::Result<Target> {
    let first = aiter.gpus(None)?.into_iter().next().context("--gpu: no GPU in this machine")?;
    Ok(first.target)
}

impl Tuning<'_> {
    /// The session, and the tuners of this machine.
    ///
    /// # Errors
    /// If aiter is not here.
    pub async fn here(&self) -> anyhow::Result<(Session, Workers)> {
        let evaluators = self.evaluators().await?;
        let device = self.aiter.device(self.target.clone(), None).await?;
        Ok((self.session(device.identity())?, Workers::Evaluators(evaluators)))
    }

    /// The session of a fleet.
    ///
    /// # Errors
    /// If its name is none.
    pub fn by_fleet(&self) -> anyhow::Result<(Session, Workers)> {
        Ok((self.session("of the fleet")?, Workers::Fleet))
    }

    /// Tunes `problems`. `None`: a signal interrupted it.
    ///
    /// # Errors
    /// As [`Site::carry_out`], or if what was found can not be written.
    pub async fn tune(
        &self,
        site: &Site,
        session: Session,
        problems: Vec<Problem>,
        workers: Workers,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Tuned>> {
        let asked = Asked::default();
        let order = Order::of(session.clone(), problems.clone(), &asked);
        match site.carry_out(order, workers, watch).await?.end {
            End::Interrupted => Ok(None),
            End::Nothing | End::DoneBefore | End::Complete(_) => {
                Ok(Some(self.found(&*site.ports.store, &session, problems, watch).await?))
            }
        }
    }

    /// aiter on each GPU.
    async fn evaluators(&self) -> anyhow::Result<Vec<Arc<dyn Evaluator>>> {
        let mut named: Vec<Option<String>> = self.devices.iter().cloned().map(Some).collect();
        if named.is_empty() {
            let gpus = self.aiter.gpus(None).unwrap_or_default();
            named.extend(gpus.iter().filter(|gpu| gpu.target == self.target).map(|gpu| Some(gpu.index.to_string())));
        }
        if named.is_empty() {
            named.push(None);
        }
        let mut evaluators: Vec<Arc<dyn Evaluator>> = Vec::new();
        for gpu in named {
            evaluators.push(Arc::new(self.aiter.device(self.target.clone(), gpu).await?));
        }
        Ok(evaluators)
    }

    /// The session of these shapes; another version of aiter, or other arguments, are another session.
    fn session(&self, versions: &str) -> anyhow::Result<Session> {
        let Self { target, arguments, .. } = self;
        let limit = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        let name = match self.session {
            Some(name) => name.clone(),
            None => {
                let limit = limit.to_string();
                let mut parts = vec![versions.as_bytes(), arguments.as_bytes(), limit.as_bytes()];
                parts.extend(self.compare.then_some(b"compare".as_slice()));
                let digest = Digest::of_parts(digest::VERSIONS, parts);
                format!("aiter-{target}-{}", &digest.short()[..8]).parse()?
            }
        };
        let plain = Session::of_kernels(name, target.clone(), "bluefin aiter tune", &[Stage::Find], now_ms());
        let mut session = Session { method: Method::AITER, ..plain };
        session.budget.solver_ms = Some(limit);
        if !arguments.is_empty() {
            session.environment.insert(ARGUMENTS.to_string(), arguments.clone());
        }
        if self.compare {
            session.environment.insert(COMPARE.to_string(), "1".to_string());
        }
        Ok(session)
    }

    /// What was found, as files of its own, and what was not.
    async fn found(
        &self,
        store: &dyn Store,
        session: &Session,
        problems: Vec<Problem>,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Tuned> {
        let failed = report::failed(store, session, &problems).await?;
        let operators = match self.compare {
            true => operators::measured(store, session, &problems).await?,
            false => Vec::new(),
        };
        let request = ExportRequest {
            formats: vec![Arc::new(AiterFormat)],
            only: Some(Arc::new(problems.into_iter().collect())),
            ..ExportRequest::all(self.rows.clone())
        };
        let exported = export(store, &session.name, &request).await?;
        exported.warnings.iter().for_each(|warning| watch.say(&format!("warning: {warning}")));
        let files: Vec<PathBuf> = exported.files.into_iter().map(|file| file.path).collect();
        // What was measured is not passed over.
        let rows = files.iter().map(|path| Sheet::read(path, None)).collect::<Result<_, _>>()?;
        Ok(Tuned { rows, failed, operators })
    }
}
