//! One process of a simulated fleet: devices and compilers that sleep, served by the workers that serve real ones.

use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::target::Target;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::Programs;
use bluefin_compile_worker::toolchain::{self, CompileAssignment, Compiled, Toolchain};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::timing::Limits;
use bluefin_eval_worker::{Assignment, DeviceError, Evaluated, Evaluator, Noop, Running, Stop};
use prometheus::Registry;
use tokio::net::unix::pipe;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::times::Times;

/// What a process of a simulated fleet has.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    #[arg(long)]
    pub target: Target,
    #[arg(long)]
    pub devices: usize,
    #[arg(long)]
    pub device_time: Times,
    /// Jobs that each device has in hand
    #[arg(long)]
    pub prefetch: u16,
    #[arg(long)]
    pub compilers: usize,
    #[arg(long)]
    pub compile_time: Times,
    #[command(flatten)]
    pub fleet: FleetArgs,
}

impl MachineArgs {
    /// Works until its standard input ends, which is when the process that started it says so, or is gone.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let stop = CancellationToken::new();
        let registry = Registry::new();
        let pipeline = PipelineMetrics::register(&registry)?;
        let compile_metrics = compile_worker::Metrics::register(&registry, pipeline.clone())?;
        let eval_metrics = eval_worker::Metrics::register(&registry, pipeline)?;
        let inner = toolchain::probe("noop", &Programs::default()).await?;
        let compiler = Arc::new(SimulatedCompiler { inner, time: self.compile_time });
        let mut compile = compile_worker::Config::new("bench", vec![compiler], self.compilers.max(1));
        compile.targets = Some(vec![self.target.clone()]);
        let evals = (0..self.devices).map(|index| {
            let device = SimulatedDevice {
                name: format!("simulated:{index}"),
                noop: Noop { target: self.target.clone() },
                time: self.device_time,
            };
            let mut config = eval_worker::Config::new("bench", Arc::new(device));
            config.prefetch = self.prefetch;
            config
        });
        let evals = evals.collect();
        // As processes of their own would have them.
        let (compile_broker, compile_store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let (eval_broker, eval_store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let compiling = async {
            let run =
                compile_worker::run(compile, compile_broker.clone(), compile_store, compile_metrics, stop.clone());
            let ran = if self.compilers > 0 { Some(run.await) } else { None };
            stop_with(&stop, ran).await
        };
        let evaluating = async {
            let run = eval_worker::run_all(evals, eval_broker.clone(), eval_store, eval_metrics, stop.clone());
            let ran = if self.devices > 0 { Some(run.await) } else { None };
            stop_with(&stop, ran).await
        };
        let told = async {
            let told = stop.run_until_cancelled(input_ended()).await;
            stop.cancel();
            told.unwrap_or(Ok(()))
        };
        let (compiled, evaluated, told) = tokio::join!(compiling, evaluating, told);
        compile_broker.close().await;
        eval_broker.close().await;
        told?;
        compiled?;
        evaluated?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What came of workers, which end all the others; where there are none, once those end.
async fn stop_with<E>(stop: &CancellationToken, ran: Option<Result<(), E>>) -> Result<(), E> {
    match ran {
        Some(ran) => {
            stop.cancel();
            ran
        }
        None => {
            stop.cancelled().await;
            Ok(())
        }
    }
}

async fn input_ended() -> anyhow::Result<()> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let input = pipe::Receiver::from_owned_fd(input).context("standard input")?;
    let mut nothing = [0; 64];
    loop {
        input.readable().await?;
        match input.try_read(&mut nothing) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("standard input"),
        }
    }
}

/// A device on which every job takes its time.
struct SimulatedDevice {
    name: String,
    noop: Noop,
    time: Times,
}

#[async_trait]
impl Evaluator for SimulatedDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> &Target {
        self.noop.target()
    }

    fn method(&self) -> Method {
        self.noop.method()
    }

    async fn start(&self, metrics: &eval_worker::Metrics) -> Result<Box<dyn Running>, DeviceError> {
        Ok(Box::new(RunningDevice { noop: self.noop.start(metrics).await?, time: self.time }))
    }
}

struct RunningDevice {
    noop: Box<dyn Running>,
    time: Times,
}

#[async_trait]
impl Running for RunningDevice {
    fn identity(&self) -> &str {
        self.noop.identity()
    }

    fn pins(&self, limits: &Limits) -> Vec<Arc<dyn Pin>> {
        self.noop.pins(limits)
    }

    /// What it needs is fetched while another job is on the device, as for a real one.
    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let evaluated = self.noop.evaluate(assignment).await?;
        let time = self.time.of(assignment.job().id());
        // Sleep begins when it is made, so not before its turn.
        let ((), busy) = assignment.alone(async { sleep(time).await }).await?;
        Ok(Evaluated { busy, ..evaluated })
    }
}

/// A toolchain of whose slots every job takes one for its time.
struct SimulatedCompiler {
    inner: Arc<dyn Toolchain>,
    time: Times,
}

#[async_trait]
impl Toolchain for SimulatedCompiler {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn pin(&self) -> &dyn Pin {
        self.inner.pin()
    }

    async fn serves(&self, target: &Target) -> Result<bool, compile_worker::Error> {
        self.inner.serves(target).await
    }

    async fn compile(&self, work: CompileAssignment<'_>) -> Result<Compiled, compile_worker::Error> {
        let slot = work.workshop.slot().await;
        sleep(self.time.of(work.job.id())).await;
        drop(slot);
        self.inner.compile(work).await
    }
}
