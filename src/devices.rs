//! `bluefin devices`: what this machine has to evaluate on. And how devices are named on every command line.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use bluefin_eval_worker::inventory::{DeviceInfo, Inventory};
use bluefin_eval_worker::{ChildConfig, DeviceChild};
use comfy_table::Table;

use crate::{itself, out, width};

/// Show the devices of this machine, and why others are not used
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin devices\n  bluefin devices --json\n\n\
    Libraries are looked up at run time: BLUEFIN_HIP_LIBRARY and BLUEFIN_CUDA_LIBRARY name one to be tried first.\n\
    Exit code 1: no GPU is usable.")]
pub struct DevicesArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl DevicesArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let inventory = inventory().await?;
        if self.json {
            out::json(&inventory)?;
        } else {
            out::line(table(&inventory))?;
            for note in &inventory.notes {
                out::line(note)?;
            }
        }
        Ok(if inventory.gpus.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// All devices of this machine.
pub async fn inventory() -> anyhow::Result<Inventory> {
    Ok(Inventory::take(&list_command()?).await)
}

/// The child of the one device that `text` names.
pub async fn child_of(text: &str) -> anyhow::Result<ChildConfig> {
    let inventory = inventory().await?;
    let selected = inventory.select(text).map_err(|error| crate::usage(format!("--device: {error}")))?;
    let [device] = selected.as_slice() else {
        return Err(crate::usage(format!("--device {text}: found {} devices, expected one", selected.len())));
    };
    let mut children = inventory.children(&[*device], &itself::child()?);
    children.pop().context("a device without a child")
}

/// The command that asks a driver.
fn list_command() -> anyhow::Result<Vec<OsString>> {
    let mut command = itself::command("eval-child")?;
    command.push("--list".into());
    Ok(command)
}

/// How each of `devices` is served.
pub fn serve(inventory: &Inventory, devices: &[&DeviceInfo], child: &ChildConfig) -> anyhow::Result<Vec<DeviceChild>> {
    let served = |(device, child): (&&DeviceInfo, ChildConfig)| {
        let target = device.parse_target().map_err(anyhow::Error::msg)?;
        Ok(DeviceChild { device: device.device.clone(), target, child })
    };
    devices.iter().zip(inventory.children(devices, child)).map(served).collect()
}

fn table(inventory: &Inventory) -> Table {
    let mut table = width::table();
    table.set_header(["", "device", "target", "model", "memory", "clocks", "partition", "driver", "UUID"]);
    for (index, device) in inventory.gpus.iter().enumerate() {
        row(&mut table, &index.to_string(), device);
    }
    if let Some(host) = &inventory.host {
        // Its name goes on with features that only the session's pin needs.
        let name = host.name.split(" (").next().unwrap_or_default().to_string();
        row(&mut table, "", &DeviceInfo { name, ..host.clone() });
    }
    table
}

fn row(table: &mut Table, index: &str, device: &DeviceInfo) {
    let mhz = |clock: Option<u32>| clock.map_or_else(|| "-".to_string(), |mhz| mhz.to_string());
    let clocks = match (device.clock_mhz, device.memory_clock_mhz) {
        (None, None) => "-".to_string(),
        (clock, memory) => format!("{} / {} MHz", mhz(clock), mhz(memory)),
    };
    let driver: Vec<&str> =
        [device.driver.as_str(), device.runtime.as_str()].into_iter().filter(|version| !version.is_empty()).collect();
    let or_dash = |text: &str| if text.is_empty() { "-".to_string() } else { text.to_string() };
    table.add_row([
        index.to_string(),
        device.device.clone(),
        device.target.clone(),
        device.name.clone(),
        format!("{:.1} GiB", device.memory_bytes as f64 / f64::from(1 << 30)),
        clocks,
        device.partition.clone().unwrap_or_else(|| "-".to_string()),
        or_dash(&driver.join(", ")),
        or_dash(&device.uuid),
    ]);
}
