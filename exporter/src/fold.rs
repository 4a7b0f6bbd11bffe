//! The fold: what the outcomes of each group tell, kept by the caller. Pure, and done on several threads.

use std::collections::BTreeSet;

use bluefin_common::decision::{Decision, decide, description};
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Problem;
use bluefin_common::search_end::SearchEnd;
use bluefin_common::session::Session;

/// What could not be told, for people: each once, in order.
pub type Warnings = BTreeSet<String>;

/// A group: the outcomes of one problem with one kernel spec, and what follows from them.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    pub session: &'a Session,
    pub problem: &'a Problem,
    /// Digest of the kernel spec; of nothing where there is none.
    pub spec: Digest,
    /// At least one.
    pub outcomes: &'a [Outcome],
    /// What they say of their candidates.
    pub description: Description,
    /// Who won. `None` while that is open, or if nothing ran.
    pub decision: Option<Decision<'a>>,
    /// How its search ended. `None`: nobody searched, or it goes on.
    pub search: Option<&'a SearchEnd>,
}

impl<'a> Group<'a> {
    /// The group that has these outcomes; `None` if there are none.
    #[must_use]
    pub fn new(session: &'a Session, outcomes: &'a [Outcome]) -> Option<Self> {
        let job = &outcomes.first()?.job;
        let (mut description, decision) = (description(outcomes), decide(session, outcomes));
        if description.library.is_empty() {
            // All of its jobs were given up before anybody said more.
            description.library = job.method.to_string();
        }
        Some(Self { session, problem: &job.problem, spec: job.spec, outcomes, description, decision, search: None })
    }

    /// The same, whose search ended like this.
    #[must_use]
    pub fn searched(self, search: Option<&'a SearchEnd>) -> Self {
        Self { search, ..self }
    }

    /// Floating-point operations of useful work, where they are known.
    #[must_use]
    pub fn flops(&self) -> Option<f64> {
        let by_problem = || Some(self.problem.flops()).filter(|flops| *flops > 0.0);
        self.description.work.flops.or_else(by_problem)
    }

    /// Bytes that the problem has to move, where its spec says so.
    #[must_use]
    pub fn bytes(&self) -> Option<f64> {
        self.description.work.bytes
    }
}

/// Two that are told of the same groups.
impl<A: Fold, B: Fold> Fold for (A, B) {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        self.0.add(group, warnings);
        self.1.add(group, warnings);
    }

    fn merge(&mut self, other: Self, warnings: &mut Warnings) {
        self.0.merge(other.0, warnings);
        self.1.merge(other.1, warnings);
    }
}

/// What is kept of any number of groups. One that was told of some groups, and then takes over another that was told of those
/// behind them, is the same as one that was told of all.
pub trait Fold: Sized + Send + 'static {
    /// Adds what `group` tells.
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings);

    /// Adds what `other` has of other groups.
    fn merge(&mut self, other: Self, warnings: &mut Warnings);
}
