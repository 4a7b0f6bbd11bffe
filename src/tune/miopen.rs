//! `bluefin tune --tuner fin` or `miopendriver`: a whole campaign of MIOpen's own solvers on this machine, as `bluefin run` carries out
//! a plan.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::kfd;
use bluefin_common::method::Method;
use bluefin_common::target::Target;
use bluefin_miopen::detect;

use super::{TuneArgs, can_write};
use crate::run::carry_out;
use crate::run::plan::{
    ApplicabilityStep, EnqueueStep, ExportStep, ImportStep, PlanFile, SessionStep, SolversStep, TunerName, WaitStep,
    Word,
};

/// The tag that problems are imported into.
const TAG: &str = "tune";

impl TuneArgs {
    pub(super) async fn with_miopen(self) -> anyhow::Result<ExitCode> {
        let plan = self.plan_for_miopen()?;
        can_write(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        let store = StoreArgs { state: Some(self.state.clone()), ..StoreArgs::default() };
        carry_out(plan, store, &self.admin, self.json).await
    }

    fn plan_for_miopen(&self) -> anyhow::Result<PlanFile> {
        let tuner = self.tuner;
        if tuner == Method::AITER {
            return Err(crate::usage("--tuner aiter: aiter's shapes are tuned by bluefin aiter tune"));
        }
        let input = &self.input;
        let ours = [
            (!input.kernel.is_empty(), "--kernel"),
            (!input.direction.is_empty(), "--direction"),
            (input.data_type.is_some(), "--type"),
            (self.stage.is_some(), "--stage"),
            (self.conditions.warm, "--warm"),
            (self.conditions.load.sustained, "--sustained"),
        ];
        if let Some((_, flag)) = ours.into_iter().find(|(given, _)| *given) {
            return Err(crate::usage(format!("{flag}: has no effect on MIOpen's tools, with --tuner {tuner}")));
        }
        if input.files.is_empty() {
            return Err(crate::usage("no file of problems was named"));
        }
        let tag = || TAG.parse().map(Word).context("tag");
        let batches = input.batchsize.iter().filter_map(|batch| std::num::NonZeroU32::new(*batch)).collect();
        let import = ImportStep { files: input.files.clone(), batches, allow_rejects: true, ..ImportStep::of(tag()?) };
        let session = SessionStep {
            name: self.session.clone().map(Word),
            tuner: Some(Word(TunerName(tuner))),
            ..SessionStep::of("bluefin tune", self.target_for_miopen()?)
        };
        let asks_fin = !tuner.toolchains.is_empty();
        Ok(PlanFile {
            import: vec![import],
            session,
            solvers: asks_fin.then(SolversStep::default),
            applicability: asks_fin.then(ApplicabilityStep::default),
            enqueue: EnqueueStep::default(),
            wait: WaitStep { local: true, compile_slots: self.compile_slots, ..WaitStep::default() },
            export: Some(ExportStep::to(self.out.clone())),
            check: None,
        })
    }

    /// What `--device` names, or the first GPU of this machine.
    fn target_for_miopen(&self) -> anyhow::Result<Target> {
        let gpus = detect::gpus(Path::new(kfd::TOPOLOGY));
        let named = match self.device.as_deref() {
            None | Some("gpu") => gpus.first().map(|gpu| gpu.target.clone()),
            Some(text) => {
                let of_gpu = gpus.iter().find(|gpu| gpu.index.to_string() == text || gpu.uuid == text);
                of_gpu.map(|gpu| gpu.target.clone()).or_else(|| text.parse().ok())
            }
        };
        named.ok_or_else(|| {
            let (found, topology) = (self.device.as_deref().unwrap_or("gpu"), kfd::TOPOLOGY);
            crate::usage(format!(
                "--device: found {found}, expected an AMD GPU of {topology}, or what it is: --device gfx90a-104"
            ))
        })
    }
}
