//! The devices of this machine. Drivers are asked by child processes: one that hangs or crashes when it is opened takes
//! nothing else with it.

mod placement;

use std::ffi::OsString;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use bluefin_common::arch::{self, Architecture};
use bluefin_common::target::Target;
use bluefin_common::{secrets, suggest};
use serde::Serialize;
use tokio::process::Command;
use tokio::time::timeout;

use crate::device::Device as _;
use crate::device::gpu::{self, Interface};
use crate::device::host::HostDevice;
use crate::supervisor::{ChildConfig, Proven, environment};

pub use self::placement::{cpus_left, cpus_of_gpus};
pub use crate::device::info::{DeviceInfo, Listing};

/// How long a driver may take to tell what it has: with many GPUs it needs seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes read of an answer.
const ANSWER: usize = 1 << 20;

/// All devices of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// In the order of their indices.
    pub gpus: Vec<DeviceInfo>,
    pub host: Option<DeviceInfo>,
    /// For each interface without a device, or with libraries that are not used, why.
    pub notes: Vec<String>,
}

/// Prints what `interface` finds, for [`Inventory::take`]: the child's part.
#[must_use]
pub fn print(interface: &str) -> ExitCode {
    let listing = match interface {
        "cuda" => gpu::list(Interface::Cuda),
        "hip" => gpu::list(Interface::Hip),
        "host" => Listing { devices: vec![host()], notes: Vec::new() },
        _ => {
            eprintln!("interface: found {interface:?}, expected cuda, hip or host");
            return ExitCode::from(2);
        }
    };
    match serde_json::to_string(&listing) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn host() -> DeviceInfo {
    let device = HostDevice::new();
    let description = device.description();
    DeviceInfo {
        device: "host".to_string(),
        name: description.name.clone(),
        target: description.target.to_string(),
        memory_bytes: description.memory_bytes,
        driver: String::new(),
        runtime: String::new(),
        clock_mhz: None,
        memory_clock_mhz: None,
        partition: None,
        uuid: String::new(),
        pci: String::new(),
    }
}

impl Inventory {
    /// Asks every interface. `command` starts a child that calls [`print`] with the word that is appended.
    pub async fn take(command: &[OsString]) -> Self {
        let (cuda, hip, host) = tokio::join!(ask(command, "cuda"), ask(command, "hip"), ask(command, "host"));
        let mut inventory = Self::default();
        let mut absent = Vec::new();
        for (interface, listing) in [("cuda", cuda), ("hip", hip), ("host", host)] {
            let Listing { devices, mut notes } =
                listing.unwrap_or_else(|reason| Listing { devices: Vec::new(), notes: vec![reason] });
            absent.extend(
                notes.iter().find_map(|note| absent_library(note)).map(|library| (interface, library.to_string())),
            );
            notes.retain(|note| absent_library(note).is_none());
            inventory.notes.extend(notes.into_iter().map(|note| format!("{interface}: {note}")));
            match interface {
                "host" => inventory.host = devices.into_iter().next(),
                _ => inventory.gpus.extend(devices),
            }
        }
        // A library that is used was found under a name behind those that were not.
        absent.retain(|(interface, _)| !inventory.gpus.iter().any(|gpu| gpu.device.starts_with(interface)));
        if !absent.is_empty() {
            let named = absent.iter().map(|(interface, library)| format!("{interface} ({library})"));
            let named = named.collect::<Vec<_>>().join(", ");
            inventory
                .notes
                .push(format!("no GPU runtime is installed here for {named}: install its driver to use such a GPU"));
        }
        inventory
    }

    /// The devices that `text` names: `host`, `gpu` (all GPUs), or a list of indices, names (`cuda:0`), UUIDs and targets
    /// (all GPUs of each).
    ///
    /// # Errors
    /// The word that names none, and what there is.
    pub fn select(&self, text: &str) -> Result<Vec<&DeviceInfo>, String> {
        let mut selected: Vec<&DeviceInfo> = Vec::new();
        for word in text.split(',').map(str::trim) {
            let found: Vec<&DeviceInfo> = match (word, word.parse::<usize>()) {
                ("host", _) => self.host.iter().collect(),
                ("gpu", _) => self.gpus.iter().collect(),
                (_, Ok(index)) => self.gpus.get(index).into_iter().collect(),
                _ => self.gpus.iter().filter(|gpu| gpu.answers_to(word)).collect(),
            };
            if found.is_empty() {
                let known = self.gpus.iter().flat_map(|gpu| [gpu.device.as_str(), gpu.target.as_str()]);
                let meant = suggest::alike(word, known.chain(["host", "gpu"]));
                let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
                return Err(format!("found {word:?}, expected one of {}{meant}", self.words()));
            }
            for device in found {
                if !selected.iter().any(|other| other.device == device.device) {
                    selected.push(device);
                }
            }
        }
        Ok(selected)
    }

    /// What a device may be called here.
    fn words(&self) -> String {
        let mut words = vec!["host".to_string()];
        words.extend(
            self.gpus.iter().enumerate().map(|(index, gpu)| format!("{index} ({}, {})", gpu.device, gpu.target)),
        );
        let mut text = words.join(", ");
        if self.gpus.is_empty() {
            text = format!("{text}; no GPU is usable here: {}", self.notes.join("; "));
        }
        text
    }

    /// How to start the children of `devices`: `child` with the one device that each may see, and a CPU.
    #[must_use]
    pub fn children(&self, devices: &[&DeviceInfo], child: &ChildConfig) -> Vec<ChildConfig> {
        let allowed = placement::allowed_cpus();
        let cpus: Vec<_> = self.seats(&allowed, devices).into_iter().map(|cpu| child.cpu.or(cpu)).collect();
        let mut taken: Vec<u32> = cpus.iter().copied().flatten().collect();
        taken.sort_unstable();
        taken.dedup();
        // A container may have the time of fewer CPUs than it may run on.
        let usable = std::thread::available_parallelism().map_or(1, usize::from).min(allowed.len());
        let spare = usable.saturating_sub(taken.len());
        let place = |(device, cpu): (&&DeviceInfo, Option<u32>)| ChildConfig {
            cpu,
            taken_cpus: taken.clone(),
            translators: match device.device.split_once(':') {
                // The driver of no other device compiles.
                Some(("cuda", _)) => placement::translators(spare, devices.len(), device.memory_bytes),
                _ => 0,
            },
            proven: Proven::default(),
            ..self.child_of(device, child.clone())
        };
        devices.iter().zip(cpus).map(place).collect()
    }

    /// A CPU for each of `devices`. It follows from all GPUs of the machine: workers that serve one device each do not meet on a CPU,
    /// nor do those in containers that see one GPU each.
    fn seats(&self, allowed: &[u32], devices: &[&DeviceInfo]) -> Vec<Option<u32>> {
        let here = self.gpus.iter().map(|gpu| (gpu.pci.to_lowercase(), gpu.device.as_str()));
        let mut seats: Vec<(String, &str)> = here.collect();
        let others = placement::gpus().into_iter().filter(|pci| !seats.iter().any(|(known, _)| known == pci));
        seats.extend(others.map(|pci| (pci, "")).collect::<Vec<_>>());
        seats.sort();
        seats.push((String::new(), "host"));
        let near: Vec<_> = seats.iter().map(|(pci, _)| placement::near(pci)).collect();
        let cpus = placement::spread(allowed, &near);
        let seat_of = |device: &&DeviceInfo| seats.iter().position(|(_, name)| *name == device.device);
        devices.iter().map(|device| cpus.get(seat_of(device)?).copied().flatten()).collect()
    }

    /// How to start the child of `device`: `child` with that one device to see.
    fn child_of(&self, device: &DeviceInfo, mut child: ChildConfig) -> ChildConfig {
        let (interface, number) = device.device.split_once(':').unwrap_or((&device.device, "0"));
        let name = if interface == "host" { "host".to_string() } else { format!("{interface}:0") };
        child.command.extend(["--device".into(), name.into()]);
        // Slices of a GPU may share what it calls unique.
        let unique = self.gpus.iter().filter(|gpu| gpu.uuid == device.uuid).count() == 1 && !device.uuid.is_empty();
        let inherited = |variable| std::env::var(variable).ok().filter(|list| !list.is_empty());
        child.environment = match interface {
            "cuda" if unique => vec![("CUDA_VISIBLE_DEVICES", Some(device.uuid.clone()))],
            "cuda" => vec![("CUDA_VISIBLE_DEVICES", Some(entry(inherited("CUDA_VISIBLE_DEVICES"), number)))],
            // HIP takes CUDA's variable for its own where its own is not set.
            "hip" if unique => vec![
                ("ROCR_VISIBLE_DEVICES", Some(device.uuid.clone())),
                ("HIP_VISIBLE_DEVICES", None),
                ("CUDA_VISIBLE_DEVICES", None),
                ("GPU_DEVICE_ORDINAL", None),
            ],
            "hip" => {
                let list = inherited("HIP_VISIBLE_DEVICES").or_else(|| inherited("CUDA_VISIBLE_DEVICES"));
                vec![("HIP_VISIBLE_DEVICES", Some(entry(list, number)))]
            }
            _ => Vec::new(),
        };
        child.uuid.clone_from(&device.uuid);
        child
    }
}

/// The library that a note is about, where it says of a name that the loader looked for that no such file is there.
fn absent_library(note: &str) -> Option<&str> {
    let (library, reason) = note.split_once(": ")?;
    (!library.contains('/') && reason == "cannot open shared object file: No such file or directory").then_some(library)
}

/// What stands for the visible device of this number in a list of what is visible.
fn entry(list: Option<String>, number: &str) -> String {
    let index: Option<usize> = number.parse().ok();
    let entry = list.as_deref().zip(index).and_then(|(list, index)| list.split(',').nth(index));
    entry.unwrap_or(number).trim().to_string()
}

impl DeviceInfo {
    fn answers_to(&self, word: &str) -> bool {
        let product = |(known, units): (&Architecture, u32)| self.target == format!("{}-{units}", known.name);
        self.device == word
            || self.target == word
            || arch::product(word).is_some_and(product)
            || !self.uuid.is_empty() && self.uuid.eq_ignore_ascii_case(word)
    }

    /// What it runs code for.
    ///
    /// # Errors
    /// If the child said nonsense.
    pub fn parse_target(&self) -> Result<Target, String> {
        self.target.parse().map_err(|error| format!("{}: {error}", self.device))
    }
}

/// What a child says that opens `interface`.
async fn ask(command: &[OsString], interface: &str) -> Result<Listing, String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let child = Command::new(program)
        .args(arguments)
        .arg(interface)
        .env_clear()
        .envs(environment::inherited())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let output = timeout(PATIENCE, child.wait_with_output())
        .await
        .map_err(|_| format!("its driver did not answer within {} s", PATIENCE.as_secs()))?
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = secrets::scrub(&String::from_utf8_lossy(&output.stderr));
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(format!("its driver ended the process that opened it ({}) {last}", output.status));
    }
    // A driver may have printed before.
    let answer = output.stdout.get(..output.stdout.len().min(ANSWER)).unwrap_or_default();
    let line = answer.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    serde_json::from_slice(line).map_err(|error| format!("unexpected answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Deadlines;

    #[test]
    fn a_library_that_is_not_there_is_told_from_one_that_does_not_work() {
        let missing = "cannot open shared object file: No such file or directory";
        assert_eq!(absent_library(&format!("libcuda.so.1: {missing}")), Some("libcuda.so.1"));
        assert_eq!(absent_library(&format!("/opt/x/libamdhip64.so: {missing}")), None);
        assert_eq!(absent_library("libcuda.so.1: lacks cuInit"), None);
    }

    fn gpu(device: &str, target: &str, uuid: &str) -> DeviceInfo {
        DeviceInfo {
            device: device.to_string(),
            name: "GPU".to_string(),
            target: target.to_string(),
            memory_bytes: 1 << 30,
            driver: String::new(),
            runtime: String::new(),
            clock_mhz: None,
            memory_clock_mhz: None,
            partition: None,
            uuid: uuid.to_string(),
            pci: String::new(),
        }
    }

    fn machine() -> Inventory {
        Inventory {
            gpus: vec![
                gpu("cuda:0", "sm_90-132", "GPU-a"),
                gpu("cuda:1", "sm_90-132", "GPU-b"),
                gpu("hip:0", "gfx90a-104", "GPU-0b1ef10000000000"),
                gpu("hip:1", "gfx90a-104", ""),
            ],
            host: Some(host()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn devices_are_named_in_many_ways() {
        let machine = machine();
        let names = |text: &str| -> Vec<String> {
            machine.select(text).unwrap().into_iter().map(|device| device.device.clone()).collect()
        };
        assert_eq!(names("host"), ["host"]);
        assert_eq!(names("gpu").len(), 4);
        assert_eq!(names("2, 0"), ["hip:0", "cuda:0"]);
        assert_eq!(names("sm_90-132"), ["cuda:0", "cuda:1"]);
        assert_eq!(names("h100,mi210"), ["cuda:0", "cuda:1", "hip:0", "hip:1"]);
        assert_eq!(names("gpu-A,cuda:0,host"), ["cuda:0", "host"]);
        for text in ["4", "", "gfx942-304", "GPU-c", "0,x"] {
            let error = machine.select(text).unwrap_err();
            assert!(error.contains("expected one of host, 0 (cuda:0, sm_90-132)"), "{error}");
        }
        assert!(machine.select("hots").unwrap_err().ends_with("; did you mean host?"));
        let none = Inventory { notes: vec!["cuda: libcuda.so.1: not found".to_string()], ..Inventory::default() };
        assert!(none.select("gpu").unwrap_err().contains("no GPU is usable here: cuda: libcuda.so.1: not found"));
    }

    #[test]
    fn devices_of_several_workers_do_not_meet_on_a_cpu() {
        let machine = machine();
        let allowed: Vec<u32> = (0..16).collect();
        let all: Vec<&DeviceInfo> = machine.gpus.iter().chain(&machine.host).collect();
        let together = machine.seats(&allowed, &all);
        let alone: Vec<_> = all.iter().flat_map(|device| machine.seats(&allowed, &[*device])).collect();
        assert_eq!(together, alone);
        let different: std::collections::BTreeSet<_> = together.iter().collect();
        assert_eq!(different.len(), all.len(), "{together:?}");
    }

    #[test]
    fn a_child_sees_one_device() {
        let machine = machine();
        let child = |index: usize| {
            let child = ChildConfig::new(vec!["bluefin".into(), "eval-child".into()], Deadlines::default());
            machine.child_of(&machine.gpus[index], child)
        };
        let first = child(1);
        assert_eq!(first.command[2..], ["--device", "cuda:0"]);
        assert_eq!(first.environment, [("CUDA_VISIBLE_DEVICES", Some("GPU-b".to_string()))]);
        assert_eq!(first.uuid, "GPU-b");
        assert!(child(2).environment.contains(&("ROCR_VISIBLE_DEVICES", Some("GPU-0b1ef10000000000".to_string()))));
        assert!(child(2).environment.contains(&("HIP_VISIBLE_DEVICES", None)));
        assert_eq!(entry(Some("4,6".to_string()), "1"), "6");
        assert_eq!(entry(None, "1"), "1");
    }
}
