//! `bluefin devices`: what this machine has to evaluate on.

use std::process::ExitCode;

use bluefin_eval_worker::inventory::{DeviceInfo, Inventory};
use bluefin_terminal::out;
use bluefin_terminal::sheet::{Sheet, TableArgs, cell, number, text};
use bluefin_terminal::width::wrapped;

/// Show the devices of this machine, and why others are not used
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin devices\n  bluefin devices --json\n\n\
    Libraries are looked up at run time: BLUEFIN_HIP_LIBRARY and BLUEFIN_CUDA_LIBRARY name one to be tried first. \
    Exit code 1: no GPU is usable.")]
pub struct DevicesArgs {
    #[command(flatten)]
    table: TableArgs,
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
            self.table.print(&sheet(&inventory))?;
            if !self.table.csv {
                let lines = inventory.notes.iter().flat_map(|note| wrapped(note, self.table.columns(), 0));
                lines.into_iter().try_for_each(out::line)?;
            }
        }
        Ok(if inventory.gpus.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn sheet(inventory: &Inventory) -> Sheet {
    let mut sheet = Sheet::new([
        text("index").rank(6),
        text("device"),
        text("target"),
        text("model"),
        number("memory").in_csv("memory_bytes"),
        text("clocks").rank(2),
        text("partition").rank(4),
        text("driver").rank(3),
        text("UUID").rank(5),
    ]);
    for (index, device) in inventory.gpus.iter().enumerate() {
        row(&mut sheet, &index.to_string(), device);
    }
    if let Some(host) = &inventory.host {
        // Its name goes on with features that only the session's pin needs.
        let name = host.name.split(" (").next().unwrap_or_default().to_string();
        row(&mut sheet, "", &DeviceInfo { name, ..host.clone() });
    }
    sheet
}

fn row(sheet: &mut Sheet, index: &str, device: &DeviceInfo) {
    let mhz = |clock: Option<u32>| clock.map_or_else(|| "-".to_string(), |mhz| mhz.to_string());
    let clocks = match (device.clock_mhz, device.memory_clock_mhz) {
        (None, None) => String::new(),
        (clock, memory) => format!("{} / {} MHz", mhz(clock), mhz(memory)),
    };
    let driver: Vec<&str> =
        [device.driver.as_str(), device.runtime.as_str()].into_iter().filter(|version| !version.is_empty()).collect();
    sheet.row([
        cell(index),
        cell(&device.device),
        cell(&device.target),
        cell(&device.name),
        cell(format!("{:.1} GiB", device.memory_bytes as f64 / f64::from(1 << 30))).in_csv(Some(device.memory_bytes)),
        cell(clocks),
        cell(device.partition.as_deref().unwrap_or_default()),
        cell(driver.join(", ")),
        cell(&device.uuid),
    ]);
}
