//! How a session searches, as it is said on a command line.

use std::collections::BTreeMap;
use std::str::FromStr;

use bluefin_common::digest::Digest;
use bluefin_common::session::SearchPlan;
use bluefin_common::spelled::parse_percent;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_kernel_spec::search::{Bayes, FixedOrder, Search};

use crate::known::known;
use crate::priors::{self, OtherFile};
use crate::usage;

/// How a session searches.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// How candidates are chosen, at most N of each solver for a problem: bayes learns from those before, fixed takes a fixed order [default:
    /// bayes for tune and tune-gemm, else fixed; N: as many as the budget has]
    #[arg(long, value_name = "NAME[:N]")]
    pub search: Option<SearchChoice>,
    /// Another seed gives another search
    #[arg(long, value_name = "N")]
    pub search_seed: Option<u64>,
    /// What the search has options for; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option)]
    pub search_option: Vec<(String, String)>,
    /// The search of a solver for a problem stops where it expects to gain less than this by as many candidates again; 0 never does [default: 1
    /// for bayes, 0.5 where serving tunes]
    #[arg(long, value_name = "PERCENT")]
    pub patience: Option<Patience>,
    /// Begin the search of each solver, behind its default, with winners of earlier work, which are measured like all others: a winners.json, a state
    /// file, or a release or a session of the store
    #[arg(long, value_name = "FILE|RELEASE|SESSION")]
    pub from: Option<String>,
}

/// What a search is still to gain so that it goes on, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(u32);

impl Patience {
    /// Of a search that knows what it can still gain, where nobody says.
    pub const USUAL: Self = Self(100);
    /// Where a row is launched for months, and most candidates are compiled for another row already.
    pub const SERVING: Self = Self(50);
}

/// `1%` or `1`.
impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = parse_percent(text)?;
        match (100.0 * percent).round() as u32 {
            0 if percent > 0.0 => Err("expected 0%, or 0.01% to 100%".to_string()),
            hundredths => Ok(Self(hundredths)),
        }
    }
}

/// The name of a strategy, and how many candidates it may try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchChoice {
    strategy: String,
    candidates: Option<u64>,
}

impl FromStr for SearchChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (strategy, candidates) = match text.split_once(':') {
            None => (text, None),
            Some((strategy, number)) => match number.parse() {
                Ok(number) if number > 0 => (strategy, Some(number)),
                _ => return Err(format!("found {number:?} behind the colon, expected a number of candidates")),
            },
        };
        let known = &known().searches;
        if known.get(strategy).is_none() {
            return Err(format!("found strategy {strategy:?}, expected one of {}", known.names().join(", ")));
        }
        Ok(Self { strategy: strategy.to_string(), candidates })
    }
}

/// An option of a search.
pub fn parse_option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("found {text:?}, expected NAME=VALUE"))?;
    Ok((name.to_string(), value.to_string()))
}

/// What was given with `flag`, by name, as all of `searches` take it.
///
/// # Errors
/// An option that was given twice, or that a search does not take.
pub fn options<'a>(
    flag: &str,
    given: &[(String, String)],
    searches: impl IntoIterator<Item = &'a dyn Search>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for (name, value) in given {
        if options.insert(name.clone(), value.clone()).is_some() {
            return Err(usage(format!("{flag} {name}: found twice, expected once")));
        }
    }
    for search in searches {
        search.check(&options).map_err(|reason| usage(format!("{flag}: {reason}")))?;
    }
    Ok(options)
}

impl SearchArgs {
    /// What a session of one machine is told, which learns if nothing is said. `None`: all candidates of a budget are planned at once, in the fixed order.
    ///
    /// # Errors
    /// An option that the strategy does not take, patience with one that does not know what it can still gain.
    pub fn plan(&self) -> anyhow::Result<Option<SearchPlan>> {
        self.plan_with(Patience::USUAL)
    }

    /// The same, with this patience where nothing is said.
    ///
    /// # Errors
    /// The same.
    pub fn plan_with(&self, usual: Patience) -> anyhow::Result<Option<SearchPlan>> {
        let name = self.search.as_ref().map_or(Bayes.name(), |choice| &choice.strategy);
        let strategy = known().searches.get(name);
        let options = options("--search-option", &self.search_option, strategy)?;
        let estimates = strategy.is_some_and(Search::estimates);
        if let Some(patience) = self.patience.filter(|patience| patience.0 > 0 && !estimates) {
            return Err(usage(format!(
                "--patience {}: {name} does not know what it can still gain; use a search that learns, such as --search {}",
                f64::from(patience.0) / 100.0,
                Bayes.name()
            )));
        }
        // Its candidates do not follow from what came of others, so that nobody need wait for that.
        if name == FixedOrder.name() && self.candidates().is_none() {
            return Ok(None);
        }
        let Patience(patience) = self.patience.unwrap_or(if estimates { usual } else { Patience(0) });
        let (strategy, candidates) = (name.to_string(), self.candidates().unwrap_or(0));
        Ok(Some(SearchPlan { strategy, candidates, seed: self.search_seed.unwrap_or(0), options, patience }))
    }

    /// The same of a fleet, where all candidates are planned at once if nothing is said.
    ///
    /// # Errors
    /// The same.
    pub fn of_fleet(&self) -> anyhow::Result<Option<SearchPlan>> {
        if self.search.is_some() {
            return self.plan();
        }
        let given = [
            ("--patience", self.patience.is_some()),
            ("--search-seed", self.search_seed.is_some()),
            ("--search-option", !self.search_option.is_empty()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((flag, _)) => Err(usage(format!("{flag} is for a search that learns: --search {}", Bayes.name()))),
        }
    }

    /// The blob in `store` of the winners that a session for `target` begins with, of files of a verb's own by `other`.
    ///
    /// # Errors
    /// As [`priors::keep`].
    pub async fn priors(
        &self,
        store: &dyn Store,
        target: &Target,
        other: Option<OtherFile<'_>>,
    ) -> anyhow::Result<Option<Digest>> {
        match &self.from {
            Some(from) => Ok(Some(priors::keep(store, from, target, other).await?)),
            None => Ok(None),
        }
    }

    /// Refuses `--from` where nothing is measured.
    ///
    /// # Errors
    /// If it is given.
    pub fn lists_no_priors(&self) -> anyhow::Result<()> {
        match &self.from {
            Some(from) => Err(usage(format!(
                "--list --from {from}: what a search begins with is looked up where it is carried out; without --from"
            ))),
            None => Ok(()),
        }
    }

    /// Whether anything is said.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.search.is_some() || self.patience.is_some() || self.search_seed.is_some() || !self.search_option.is_empty()
    }

    fn candidates(&self) -> Option<u64> {
        self.search.as_ref()?.candidates
    }
}
