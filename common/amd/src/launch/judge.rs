//! The verdict on a launch: it is executed once, and again where it is not known whether a race matters, or which instruction its other side is.

use std::collections::HashSet;

use super::turns::{Run, Stopped, is_of_lds};
use super::{Options, Prepared, Report};
use crate::memory::Memory;
use crate::races::{Overwrite, Races};
use crate::verdict::{Failure, Fault, Met, Raised, Verdict};
use crate::watch::Watch;

impl Prepared<'_> {
    pub(super) fn run(&self, memory: &mut Memory, options: &Options) -> Result<Report, Failure> {
        let mut done = self.judge(memory, options);
        if let (Err(Failure::Verdict(verdict)), None) = (&mut done, options.without) {
            self.name_other(memory, options, verdict);
        }
        memory.settle();
        done
    }

    /// Names the instruction of the other side of a race, which another execution finds.
    fn name_other(&self, memory: &mut Memory, options: &Options, verdict: &mut Verdict) {
        let (Some(place), Some(site)) = (Watch::place(&verdict.fault), &verdict.instruction) else { return };
        let (Some(key), Some(at)) = (memory.key_of(place), self.code.index_of(site.address)) else { return };
        memory.undo();
        let watch = Watch::new(key, verdict.block, verdict.wave, at, verdict.fault.clone());
        let mut run = Run::new(self, memory, options, Races::watching(watch));
        // It ends as the first one did, or does not: what is used of a value that a race left open is not looked at.
        let _stopped = run.run(memory);
        let found = run.races.watch.and_then(|watch| watch.other());
        if let (Fault::Race { by, .. }, Some(at)) = (&mut verdict.fault, found) {
            *by = Some(Box::new(self.code.site(at)));
        }
    }

    /// Executes the launch, and again where it is not known whether a race matters.
    fn judge(&self, memory: &mut Memory, options: &Options) -> Result<Report, Failure> {
        let mut first = Run::new(self, memory, options, Races::default());
        let done = first.run(memory);
        let found = std::mem::take(&mut first.races.found);
        let contended = std::mem::take(&mut first.races.contended);
        let stopped = match done {
            Ok(()) if found.is_empty() && contended.is_empty() => return Ok(first.report()),
            Ok(()) => None,
            Err(stopped) if stopped.raised.is_unwritten() && (stopped.first.is_some() || !found.is_empty()) => {
                Some(stopped)
            }
            Err(stopped) => return Err(self.verdict(*stopped)),
        };
        memory.undo();
        match stopped {
            // Are the values used that were overwritten behind the back of whoever had read them? And do those who read what atomics changed go on to one
            // that compares with it?
            None => {
                let races = Races::planned(found, first.launch_start, contended);
                let mut second = Run::new(self, memory, options, races);
                let mut done = second.run(memory);
                let found = std::mem::take(&mut second.races.found);
                if !found.is_empty() && done.is_ok() {
                    // More was overwritten than the marks had told.
                    memory.undo();
                    second =
                        Run::new(self, memory, options, Races::planned(found, second.launch_start, HashSet::new()));
                    done = second.run(memory);
                }
                let Err(stopped) = done else { return Ok(second.report()) };
                let raced = stopped.raced.clone().or(stopped.first.clone()).filter(|_| stopped.raised.is_unwritten());
                Err(raced.map_or_else(|| self.verdict(*stopped), |met| self.race(met)))
            }
            Some(stopped) => Err(self.unwritten(memory, options, *stopped, (found, first.launch_start, contended))),
        }
    }

    /// A value decided something that nobody wrote: or did a race leave it open?
    fn unwritten(
        &self,
        memory: &mut Memory,
        options: &Options,
        mut stopped: Stopped,
        (found, start, contended): (Vec<Overwrite>, u32, HashSet<u64>),
    ) -> Failure {
        // Waves that run ahead in LDS find what nobody wrote as well as what nothing orders.
        let run_ahead = |met: &mut Met| met.is_of_lds() && !met.is_of_lanes();
        if let (true, Some(met)) = (is_of_lds(&stopped.raised.fault), stopped.first.take_if(run_ahead)) {
            return self.race(met);
        }
        if !found.is_empty() && stopped.raced.is_none() {
            // Perhaps somebody wrote it later.
            let again = Run::new(self, memory, options, Races::planned(found, start, contended)).run(memory);
            if let Some(met) = again.err().and_then(|stopped| stopped.raced) {
                return self.race(met);
            }
            memory.undo();
        }
        let Some(met) = stopped.raced.take().or(stopped.first.take()) else { return self.verdict(stopped) };
        let place = |of: &Stopped| (of.block, of.wave, of.at);
        match Run::new(self, memory, options, Races::trusting()).run(memory) {
            Err(again) if again.raised.is_unwritten() && place(&again) == place(&stopped) => self.verdict(stopped),
            _ => self.race(met),
        }
    }

    fn race(&self, met: Met) -> Failure {
        let Met { fault, block, wave, at, lane } = met;
        self.verdict(Stopped { block, wave, at, raised: Raised::at(lane, fault), raced: None, first: None })
    }

    fn verdict(&self, stopped: Stopped) -> Failure {
        let Stopped { block, wave, at, raised, .. } = stopped;
        let at = raised.at.unwrap_or(at);
        let left = matches!(raised.fault, Fault::LeftCode { .. }) && at >= self.code.instructions.len();
        Failure::Verdict(Box::new(Verdict {
            kernel: self.kernel.name.clone(),
            fault: raised.fault,
            instruction: (!left).then(|| self.code.site(at)),
            block: raised.block.unwrap_or(block),
            wave: raised.wave.unwrap_or(wave),
            lane: raised.lane,
        }))
    }
}
