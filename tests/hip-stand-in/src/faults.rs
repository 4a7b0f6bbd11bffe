//! Faults on demand: a text file with a fault on each line, which may change while a process runs.

mod tally;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::codes::Code;

/// One fault. Prints as a line of the file: `kernel:axpy device=1 skip=2 times=1 sticky=700`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub place: Place,
    /// Index into all GPUs, whatever a process sees of them; any if absent.
    pub device: Option<usize>,
    /// How many matching calls go well first, in all processes together.
    pub skip: u64,
    /// How many matching calls are hit after that; all if absent.
    pub times: Option<u64>,
    pub effect: Effect,
}

/// What a fault hits.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// Every call.
    Any,
    /// Calls of one entry point.
    Call(String),
    /// Launches of one kernel; of all for `*`.
    Kernel(String),
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// The call does nothing but return this code.
    Error(Code),
    /// The call is accepted; what follows on its device, in this process, returns this code.
    Sticky(Code),
    /// The call is accepted; what waits for its device waits for ever.
    Hang,
    /// The process is aborted, as ROCm does on a page fault of a GPU.
    Abort,
    /// The call returns [`Code::NO_DEVICE`]. With [`Place::Any`] the device is lost, to new processes too.
    Lost,
    /// Processes that start see no such device. Goes with [`Place::Any`].
    Gone,
    /// The first thing that the kernel writes is wrong.
    Wrong,
    /// The first thing that the kernel writes is no number.
    Nan,
    /// The kernel does not run.
    Unwritten,
    /// `hipEventElapsedTime` says this, in milliseconds.
    Time(f32),
    /// The call takes this many milliseconds longer on the device.
    Slow(f64),
}

impl Fault {
    /// `effect` at every call of `place` on every device.
    #[must_use]
    pub fn new(place: Place, effect: Effect) -> Self {
        Self { place, device: None, skip: 0, times: None, effect }
    }

    /// `effect` at every launch of the kernel `name`.
    #[must_use]
    pub fn kernel(name: &str, effect: Effect) -> Self {
        Self::new(Place::Kernel(name.to_string()), effect)
    }

    /// `effect` at every call of the entry point `name`.
    #[must_use]
    pub fn call(name: &str, effect: Effect) -> Self {
        assert!(crate::SYMBOLS.contains(&name), "call: found {name:?}, which is no entry point");
        Self::new(Place::Call(name.to_string()), effect)
    }

    /// The GPU at `index` of all is lost.
    #[must_use]
    pub fn lost(index: usize) -> Self {
        Self::new(Place::Any, Effect::Lost).on(index)
    }

    /// Only on the GPU at `index` of all.
    #[must_use]
    pub fn on(self, index: usize) -> Self {
        Self { device: Some(index), ..self }
    }

    /// Only the `times` matching calls after the first `skip`.
    #[must_use]
    pub fn only(self, skip: u64, times: u64) -> Self {
        Self { skip, times: Some(times), ..self }
    }

    fn matches(&self, call: &str, device: Option<usize>, kernel: Option<&str>) -> bool {
        let place = match &self.place {
            Place::Any => true,
            Place::Call(name) => name == call,
            Place::Kernel(name) => kernel.is_some_and(|kernel| name == "*" || name == kernel),
        };
        place && (self.device.is_none() || self.device == device)
    }
}

/// The file with the faults.
#[derive(Clone, Debug)]
pub struct FaultFile(PathBuf);

impl FaultFile {
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces all faults; the counts of those that stay go on.
    ///
    /// # Errors
    /// If the file can not be written.
    pub fn set(&self, faults: &[Fault]) -> io::Result<()> {
        let next = self.0.with_extension("next");
        fs::write(&next, faults.iter().map(|fault| format!("{fault}\n")).collect::<String>())?;
        fs::rename(next, &self.0)
    }

    /// How often `fault` has hit, in all processes together.
    ///
    /// # Errors
    /// If its count can not be read.
    pub fn hits(&self, fault: &Fault) -> io::Result<u64> {
        let matched = tally::read(&self.0, fault)?;
        Ok(matched.saturating_sub(fault.skip).min(fault.times.unwrap_or(u64::MAX)))
    }

    /// The effect of the first fault that hits this call, which counts as a hit.
    pub(crate) fn hit(&self, call: &str, device: Option<usize>, kernel: Option<&str>) -> io::Result<Option<Effect>> {
        for fault in self.read()? {
            if fault.effect != Effect::Gone && fault.matches(call, device, kernel) {
                let before = tally::add(&self.0, &fault)?;
                if before >= fault.skip && fault.times.is_none_or(|times| before < fault.skip + times) {
                    return Ok(Some(fault.effect));
                }
            }
        }
        Ok(None)
    }

    /// The devices of which processes that start see nothing.
    pub(crate) fn gone(&self) -> io::Result<Vec<usize>> {
        let gone = |fault: &Fault| fault.place == Place::Any && fault.effect == Effect::Gone;
        Ok(self.read()?.iter().filter(|fault| gone(fault)).filter_map(|fault| fault.device).collect())
    }

    fn read(&self) -> io::Result<Vec<Fault>> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| line.parse().map_err(io::Error::other)).collect()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Any => write!(f, "*")?,
            Place::Call(name) => write!(f, "{name}")?,
            Place::Kernel(name) => write!(f, "kernel:{name}")?,
        }
        if let Some(device) = self.device {
            write!(f, " device={device}")?;
        }
        if self.skip > 0 {
            write!(f, " skip={}", self.skip)?;
        }
        if let Some(times) = self.times {
            write!(f, " times={times}")?;
        }
        match self.effect {
            Effect::Error(code) => write!(f, " error={}", code.0),
            Effect::Sticky(code) => write!(f, " sticky={}", code.0),
            Effect::Hang => write!(f, " hang"),
            Effect::Abort => write!(f, " abort"),
            Effect::Lost => write!(f, " lost"),
            Effect::Gone => write!(f, " gone"),
            Effect::Wrong => write!(f, " wrong"),
            Effect::Nan => write!(f, " nan"),
            Effect::Unwritten => write!(f, " unwritten"),
            Effect::Time(ms) => write!(f, " time={ms}"),
            Effect::Slow(ms) => write!(f, " slow={ms}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let place = match words.next().unwrap_or_default() {
            "*" => Place::Any,
            word => match word.strip_prefix("kernel:") {
                Some(name) => Place::Kernel(name.to_string()),
                None if crate::SYMBOLS.contains(&word) => Place::Call(word.to_string()),
                None => return Err(format!("fault {line:?}: found {word:?}, which is no entry point")),
            },
        };
        let (mut device, mut skip, mut times, mut effect) = (None, 0, None, None);
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let wrong = |_| format!("fault {line:?}: found {word:?}, expected a number behind it");
            let count = || value.parse::<u64>().map_err(|error| wrong(error.to_string()));
            let code = || value.parse().map(Code).map_err(|error| wrong(format!("{error}")));
            match name {
                "device" => device = Some(count()? as usize),
                "skip" => skip = count()?,
                "times" => times = Some(count()?),
                "error" => effect = Some(Effect::Error(code()?)),
                "sticky" => effect = Some(Effect::Sticky(code()?)),
                "hang" => effect = Some(Effect::Hang),
                "abort" => effect = Some(Effect::Abort),
                "lost" => effect = Some(Effect::Lost),
                "gone" => effect = Some(Effect::Gone),
                "wrong" => effect = Some(Effect::Wrong),
                "nan" => effect = Some(Effect::Nan),
                "unwritten" => effect = Some(Effect::Unwritten),
                "time" => effect = Some(Effect::Time(value.parse().map_err(|error| wrong(format!("{error}")))?)),
                "slow" => effect = Some(Effect::Slow(value.parse().map_err(|error| wrong(format!("{error}")))?)),
                _ => return Err(format!("fault {line:?}: found {word:?}, which is no part of a fault")),
            }
        }
        let effect = effect.ok_or_else(|| format!("fault {line:?}: found no effect"))?;
        Ok(Self { place, device, skip, times, effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_printed() {
        let faults = [
            Fault::lost(1),
            Fault::kernel("axpy", Effect::Sticky(Code::ILLEGAL_ADDRESS)).on(0).only(2, 1),
            Fault::call("hipMalloc", Effect::Error(Code::OUT_OF_MEMORY)),
            Fault::call("hipEventElapsedTime", Effect::Time(-1.5)),
            Fault::kernel("*", Effect::Slow(2.5)),
        ];
        for fault in faults {
            assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
        }
        for line in ["", "hipNothing lost", "* device=x lost", "hipMalloc", "hipMalloc lost twice"] {
            assert!(line.parse::<Fault>().is_err(), "{line}");
        }
    }

    #[test]
    fn hits_are_counted_across_processes() {
        let folder = tempfile::tempdir().unwrap();
        let file = FaultFile::at(folder.path().join("faults"));
        let fault = Fault::call("hipMalloc", Effect::Lost).on(1).only(1, 2);
        assert_eq!(file.hit("hipMalloc", Some(1), None).unwrap(), None, "without a file there is no fault");
        file.set(std::slice::from_ref(&fault)).unwrap();
        let hits: Vec<bool> = (0..5)
            .map(|_| FaultFile::at(file.path().to_owned()).hit("hipMalloc", Some(1), None).unwrap().is_some())
            .collect();
        assert_eq!(hits, [false, true, true, false, false]);
        assert_eq!(file.hit("hipMalloc", Some(0), None).unwrap(), None);
        assert_eq!(file.hit("hipFree", Some(1), None).unwrap(), None);
        assert_eq!(file.hits(&fault).unwrap(), 2);
    }
}
