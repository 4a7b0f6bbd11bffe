//! A session that was tuned, without anybody who tuned it.

use std::collections::HashMap;

use anyhow::Context;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::decision::follow_ups;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Planned, Store};
use bluefin_common::target::Target;
use bluefin_kernel_spec::KernelSpec;
use bluefin_producer::plan::CandidateBudget;
use bluefin_producer::plan::kernels::plan_problem;
use bluefin_producer::specs::LoadedSpec;
use futures_util::{StreamExt, TryStreamExt, stream};

/// Different kernels among the winners.
const KERNELS: usize = 200;
/// Size of each, as host kernels have it.
const KERNEL_BYTES: usize = 20_000;
/// Groups planned, or stored, at a time.
const WINDOW: usize = 256;

/// A session of convolutions, and what its outcomes are.
pub struct Tuned {
    pub session: Session,
    /// The perf jobs of a group.
    template: Vec<Job>,
    words: Words,
    pub groups: u64,
}

impl Tuned {
    /// One with about `count` outcomes, none of which is in `store` yet.
    pub async fn new(store: &dyn Store, count: u64) -> anyhow::Result<Self> {
        let name = format!("bench-export-{}", now_ms()).parse()?;
        let session = Session::of_kernels(name, Target::Host, "bluefin bench", &Stage::ALL, 0);
        store.create_session(&session).await?;
        let spec = LoadedSpec::shipped()?.into_iter().find(|spec| spec.spec.name == "conv-fwd-host");
        let spec = spec.context("the spec conv-fwd-host")?;
        store.put_blob(&spec.bundle.encode()?).await?;
        let mut kernels = Vec::new();
        for kernel in 0..KERNELS {
            // Half of it compresses, as code does.
            let code: Vec<u8> =
                (0..KERNEL_BYTES).map(|i| if i % 2 == 0 { (i * (kernel + 3) / 7) as u8 } else { 0 }).collect();
            store.put_blob(&code).await?;
            kernels.push(ArtifactRef::of(&code));
        }
        let planned = plan_problem(&session, &problem(0)?, std::slice::from_ref(&spec), CandidateBudget::QUICK, None)?;
        let template: Vec<Job> = planned.into_iter().flat_map(|group| group.jobs).collect();
        let groups = count / (template.len() as u64 + 1);
        let words = Words::of(&spec.spec, &template, &kernels)?;
        Ok(Self { session, template, words, groups })
    }

    /// Outcomes that it comes to.
    pub fn outcomes(&self) -> u64 {
        self.groups * (self.template.len() as u64 + 1)
    }

    /// Makes it one with about `count` candidates.
    pub fn resize(&mut self, count: u64) -> anyhow::Result<()> {
        let some = 64;
        let mut candidates = 0;
        for index in 0..some {
            candidates += self.group(index)?.iter().map(|outcome| outcome.candidates.len() as u64).sum::<u64>();
        }
        self.groups = (some * count).div_ceil(candidates.max(1));
        Ok(())
    }

    /// Records all of its jobs as planned and in their queues.
    pub async fn plan(&self, store: &dyn Store) -> anyhow::Result<()> {
        let name = &self.session.name;
        stream::iter((0..self.groups).map(|index| async move {
            let jobs: Vec<Planned> = self.group(index)?.iter().map(|outcome| Planned::of(&outcome.job)).collect();
            let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
            store.plan(name, &jobs).await?;
            store.enqueued(name, &ids).await?;
            anyhow::Ok(())
        }))
        .buffer_unordered(WINDOW)
        .try_collect()
        .await
    }

    /// Stores all of its outcomes.
    pub async fn finish(&self, store: &dyn Store) -> anyhow::Result<()> {
        stream::iter((0..self.groups).map(|index| async move {
            let outcomes = self.group(index)?;
            for outcome in &outcomes {
                store.put_outcome(outcome).await?;
            }
            if let Some(outcome) = outcomes.first() {
                store.settle_group(&self.session.name, outcome.group()).await?;
            }
            anyhow::Ok(())
        }))
        .buffer_unordered(WINDOW)
        .try_collect()
        .await
    }

    /// The outcomes of a group.
    fn group(&self, index: u64) -> anyhow::Result<Vec<Outcome>> {
        let problem = problem(index)?;
        let of = |job: &Job| self.words.outcome(Job { problem: problem.clone(), ..job.clone() }, index);
        let mut outcomes: Vec<Outcome> = self.template.iter().map(of).collect();
        let find = follow_ups(&self.session, &outcomes).pop().context("a find job")?;
        outcomes.push(self.words.outcome(find, index));
        Ok(outcomes)
    }
}

/// A convolution that no other index has.
fn problem(index: u64) -> anyhow::Result<Problem> {
    let index = u32::try_from(index)?;
    let shape = ConvShape {
        n: 1 + index / 65_536,
        c: 1 + index % 256,
        k: 1 + index / 256 % 256,
        input: [1, 14, 14],
        filter: [1, 3, 3],
        pad: [0, 1, 1],
        ..ConvShape::plain(Direction::Forward, DataType::Fp32)
    };
    Ok(Problem::Conv(ConvProblem::new(shape)?))
}

/// What workers say of the candidates of all jobs: none of it depends on the problem here.
struct Words {
    description: Description,
    objects: HashMap<Candidate, CodeObject>,
}

impl Words {
    fn of(spec: &KernelSpec, jobs: &[Job], kernels: &[ArtifactRef]) -> anyhow::Result<Self> {
        let problem_of_all = problem(0)?;
        let solvers = spec.solvers.iter().map(|solver| solver.info(&problem_of_all)).collect();
        let description = Description {
            library: spec.name.clone(),
            reference: Some(spec.reference()),
            solvers,
            ..Description::default()
        };
        let scope = spec.scope(&problem_of_all, &Target::Host)?.context("a problem of the spec")?;
        let mut objects = HashMap::new();
        for candidate in jobs.iter().flat_map(|job| &job.candidates) {
            // One kernel for each candidate, whatever the problem, as compilers make them.
            let Digest([name, ..]) = Digest::of(candidate.to_string().as_bytes());
            let artifact = kernels.get(usize::from(name) % KERNELS).context("a kernel")?;
            let options = spec.build(candidate, &scope)?.options();
            objects.insert(candidate.clone(), CodeObject::plain(*artifact, &spec.source, options));
        }
        Ok(Self { description, objects })
    }

    /// Plausible times that follow from the index, with the samples that a real outcome has.
    fn outcome(&self, job: Job, index: u64) -> Outcome {
        let timed = |(position, candidate): (usize, &Candidate)| {
            let mix = (index.wrapping_mul(2_654_435_761) ^ (position as u64).wrapping_mul(40_503)) % 1000;
            let median_ms = 0.1 + mix as f64 / 1000.0;
            let objects = self.objects.get(candidate).cloned().into_iter().collect();
            CandidateOutcome {
                candidate: candidate.clone(),
                built: Some(Built { objects, launches: Vec::new(), workspace: 4096 }),
                result: Ok(Timing {
                    spread_ms: median_ms / 100.0,
                    samples_ms: vec![median_ms as f32; 12],
                    ..Timing::single(median_ms)
                }),
                resources: None,
            }
        };
        let candidates = job.candidates.iter().enumerate().map(timed).collect();
        let mut description = self.description.clone();
        description.solvers.retain(|solver| job.candidates.iter().any(|candidate| candidate.solver == solver.name));
        Outcome { device: "bench".to_string(), protocol: 1, ..Outcome::undone(&job, description, candidates, 0) }
    }
}
