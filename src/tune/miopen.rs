//! `bluefin tune --tuner fin` or `miopendriver`: a whole campaign of MIOpen's own solvers on this machine.

use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::known::known;
use bluefin_campaign::machine::tools::Tools;
use bluefin_campaign::miopen::{AskFin, SolverSource, default_fin};
use bluefin_campaign::whole::{Enqueue, Local, Steps};
use bluefin_common::clock::now_ms;
use bluefin_common::kfd;
use bluefin_common::method::Method;
use bluefin_common::target::Target;
use bluefin_exporter::ExportRequest;
use bluefin_miopen::detect;
use bluefin_producer::import::Import;
use bluefin_producer::input::Overrides;
use bluefin_producer::library::{AddOptions, TagName};
use bluefin_producer::session::NewSession;

use super::{TuneArgs, can_write};
use crate::run::take;

/// The tag that problems are imported into.
const TAG: &str = "tune";

impl TuneArgs {
    pub(super) async fn with_miopen(self) -> anyhow::Result<ExitCode> {
        let steps = self.steps_for_miopen()?;
        can_write(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        take(steps, &self.store(), false, &self.admin, self.json).await
    }

    fn steps_for_miopen(&self) -> anyhow::Result<Steps> {
        let tuner = self.tuner;
        if tuner == Method::AITER {
            return Err(crate::usage("--tuner aiter: aiter's shapes are tuned by bluefin aiter tune"));
        }
        let input = &self.input;
        let ours = [
            (!input.kernel.is_empty(), "--kernel"),
            (!input.triton.is_empty(), "--triton"),
            (input.with.is_some(), "--with"),
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
        let tag: TagName = TAG.parse()?;
        let overrides = Overrides { batchsizes: input.batchsize.clone(), ..Overrides::default() };
        let options = AddOptions { now_ms: now_ms(), ..AddOptions::default() };
        let import = Import { tag: tag.clone(), files: input.files.clone(), overrides, only: None, options };
        let session = NewSession {
            name: self.session.clone(),
            method: Some(tuner),
            ..NewSession::of("bluefin tune", self.target_for_miopen()?)
        };
        let asks_fin = !tuner.toolchains.is_empty();
        let fin = || asks_fin.then(default_fin);
        Ok(Steps {
            from: None,
            import: vec![(import, true)],
            session: session.wanted(&known().planners())?,
            solvers: fin().map(SolverSource::Fin),
            applicability: fin().map(|fin| AskFin { fin, processes: None, again: false }),
            enqueue: Enqueue { tags: vec![tag], ..Enqueue::default() },
            local: Local { compile_slots: self.compile_slots, tools: Tools::default().or_environment() },
            export: Some(ExportRequest {
                formats: known().formats.chosen(&[]),
                ..ExportRequest::all(self.out.clone())
            }),
            check: None,
        })
    }

    /// What `--device` names, or the first GPU of this machine.
    fn target_for_miopen(&self) -> anyhow::Result<Target> {
        let gpus = detect::gpus(&kfd::topology());
        let named = match self.device.as_deref() {
            None | Some("gpu") => gpus.first().map(|gpu| gpu.target.clone()),
            Some(text) => {
                let of_gpu = gpus.iter().find(|gpu| gpu.index.to_string() == text || gpu.uuid == text);
                of_gpu.map(|gpu| gpu.target.clone()).or_else(|| text.parse().ok())
            }
        };
        named.ok_or_else(|| {
            let (found, topology) = (self.device.as_deref().unwrap_or("gpu"), kfd::topology());
            let topology = topology.display();
            crate::usage(format!(
                "--device: found {found}, expected an AMD GPU of {topology}, or what it is: --device gfx90a-104"
            ))
        })
    }
}
