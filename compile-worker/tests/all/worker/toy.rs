//! A toolchain from outside of the crate: one that learns how a kernel is launched only from what it compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bluefin_common::artifact::{Argument, ArtifactRef, Built, CodeObject, Launch};
use bluefin_common::broker::Broker;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{EvalJob, compile_queue};
use bluefin_common::store::{Artifacts as _, Sessions as _};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_compile_worker::toolchain::{CompileAssignment, Compiled};
use bluefin_compile_worker::{Error, Made, Toolchain};

use super::fleet::{evals, fleet, next, noop};

struct Toy {
    pin: PlainPin,
    compiled: AtomicUsize,
}

impl Toy {
    fn new() -> Arc<Self> {
        let pin = PlainPin { key: "toolchain.toy".to_string(), value: "toy 1".to_string() };
        Arc::new(Self { pin, compiled: AtomicUsize::new(0) })
    }

    fn build(&self, source: &str) -> Result<Made, Failure> {
        self.compiled.fetch_add(1, Ordering::SeqCst);
        if !source.ends_with(",1") {
            return Err(Failure::new(FailureKind::CompileError, "one row at a time"));
        }
        let code = format!("entry_of_{source}").into_bytes();
        let launch = Launch {
            entry: String::from_utf8_lossy(&code).into_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared: 48,
            arguments: vec![Argument::Buffer(0)],
        };
        let object = CodeObject::plain(ArtifactRef::of(&code), "toy.py", "");
        Ok(Made { built: Built { objects: vec![object], launches: vec![launch], workspace: 0 }, code: vec![code] })
    }
}

#[async_trait]
impl Toolchain for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn pin(&self) -> &dyn Pin {
        &self.pin
    }

    async fn serves(&self, target: &Target) -> Result<bool, Error> {
        Ok(*target == Target::Host)
    }

    async fn compile(&self, CompileAssignment { job, workshop, .. }: CompileAssignment<'_>) -> Result<Compiled, Error> {
        let mut built = Vec::new();
        for candidate in &job.candidates {
            let source = candidate.params_text();
            let key = Digest::of_parts("bluefin test toy", [self.identity().as_bytes(), source.as_bytes()]);
            built.push(workshop.cached(key, || async { Ok(self.build(&source)) }).await?);
        }
        let description = Description { library: "toys".to_string(), ..Description::default() };
        Ok(Compiled { task: TaskRef::None, description, built })
    }
}

#[tokio::test]
async fn a_toolchain_of_ones_own_is_served_and_its_kernels_are_cached_whole() {
    let fleet = fleet(noop).await;
    fleet.broker.declare(&compile_queue("toy", &Target::Host)).await.unwrap();
    let mut evals = fleet.consume(&evals()).await;
    let mut job = fleet.job(64, 12);
    job.toolchain = "toy".to_string();
    let mut seen = Vec::new();
    for run in 0..2 {
        let toy = Toy::new();
        let worker = fleet.worker(|config| config.toolchains = vec![toy.clone()]);
        fleet.enqueue(&job).await;
        let eval: EvalJob = next(&mut evals).await;
        worker.stop().await;
        // The second worker finds in the store what the first one learned.
        assert_eq!(toy.compiled.load(Ordering::SeqCst), if run == 0 { 12 } else { 0 });
        seen.push((eval.task, eval.description, eval.built));
    }
    assert_eq!(seen[0], seen[1]);
    let (_, description, built) = &seen[0];
    assert_eq!(description.library, "toys");
    assert!(built.iter().any(Result::is_err), "some have more rows");
    for (candidate, built) in job.candidates.iter().zip(built) {
        let Ok(built) = built else { continue };
        assert_eq!(built.launches[0].entry, format!("entry_of_{}", candidate.params_text()));
        assert!(fleet.store.has_artifact(built.artifact().unwrap()).await.unwrap());
    }
    let pins = fleet.store.pins(&fleet.session.name).await.unwrap();
    assert_eq!(pins["toolchain.toy"], "toy 1");
}
