//! `bluefin selftest`: whether this machine's devices do what bluefin needs of them. The one command to run on hardware that
//! nobody has run it on.

use std::process::ExitCode;

use bluefin_campaign::machine::devices;
use bluefin_campaign::machine::selftest::{SelftestVerdict, Tested, selftest};
use bluefin_terminal::colour::Tone;
use bluefin_terminal::out;
use bluefin_terminal::sheet::{Sheet, TableArgs, cell, number, text, toned};

/// Check that devices work: probe, known answers, timing, faults
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    bluefin selftest\n  \
    bluefin selftest --device gfx90a-104 --json\n\n\
    Known answers and times need a compiler for the device on this machine (clang for GPUs, cc for the host); without one they \
    are skipped. Exit code 1: something failed.")]
pub struct SelftestArgs {
    /// Devices to test: host, gpu, or indices, UUIDs or targets as `bluefin devices` shows them [default: all]
    #[arg(long, value_name = "DEVICE,...")]
    device: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl SelftestArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let inventory = devices::inventory().await?;
        let tested = selftest(&inventory, self.device.as_deref()).await?;
        if self.json {
            out::json(&tested)?;
        } else {
            TableArgs::default().print(&sheet(&tested))?;
            inventory.notes.iter().try_for_each(out::line)?;
        }
        let failed =
            tested.iter().flat_map(|tested| &tested.checks).any(|check| check.result == SelftestVerdict::Failed);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn sheet(tested: &[Tested]) -> Sheet {
    let mut sheet = Sheet::new([text("check"), text("result"), number("s"), text("")]).headed("device");
    for Tested { device, checks } in tested {
        sheet.heading(&format!("{}: {} ({})", device.device, device.name, device.target));
        for check in checks {
            let verdict = match check.result {
                SelftestVerdict::Passed => toned("passed", Some(Tone::Good)),
                SelftestVerdict::Failed => toned("FAILED", Some(Tone::Bad)),
                SelftestVerdict::Skipped => cell("skipped"),
            };
            let detail = check.detail.lines().next().unwrap_or_default();
            sheet.row([cell(&check.name), verdict, cell(format!("{:.1}", check.seconds)), cell(detail)]);
        }
    }
    sheet
}
