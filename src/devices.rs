//! `bluefin devices`: what this machine has to evaluate on.

use std::process::ExitCode;

use bluefin_eval_worker::inventory::{DeviceInfo, Inventory};
use bluefin_terminal::{out, width};
use comfy_table::Table;

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
        let inventory = bluefin_campaign::machine::devices::inventory().await?;
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
