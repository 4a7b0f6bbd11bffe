//! What came of a run.

use crate::Config;
use crate::faults::FAULTS;
use crate::journal::Journal;
use crate::model::Verdict;
use crate::sessions::Campaign;

/// Prints it; whether all holds.
pub fn print(config: &Config, journal: &Journal, campaigns: &[Campaign], verdict: &Verdict) -> bool {
    let Verdict { planned, outcomes, lost, doubled, buried, different } = verdict;
    let (faults, violations) = (journal.faults(), journal.violations());
    println!("\n{:>7}  fault", "times");
    for (_, _, name) in FAULTS {
        println!("{:>7}  {name}", faults.get(name).copied().unwrap_or(0));
    }
    for (name, times) in faults.iter().filter(|(name, _)| FAULTS.iter().all(|(.., known)| known != *name)) {
        println!("{times:>7}  {name}");
    }
    println!();
    for (note, times) in journal.notes() {
        println!("{times:>7}  {note}");
    }
    println!("{:>7}  sessions", campaigns.len());
    println!("{planned:>7}  jobs");
    println!("{outcomes:>7}  outcomes");
    println!("{lost:>7}  lost");
    println!("{doubled:>7}  doubled");
    println!("{:>7}  buried", buried.len());
    println!("{:>7}  the same bytes", if different.is_empty() { "yes" } else { "no" });
    println!("{:>7}  seed", config.seed);
    for what in buried.iter().chain(different).take(20) {
        println!("{what}");
    }
    for what in &violations {
        println!("VIOLATION: {what}");
    }
    let holds = *lost == 0 && *doubled == 0 && buried.is_empty() && different.is_empty() && violations.is_empty();
    println!("{}", if holds { "all holds" } else { "something does not hold" });
    if !holds {
        println!("logs in {}", config.folder.display());
    }
    holds
}
