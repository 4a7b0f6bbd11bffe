//! `bluefin doctor`: which databases MIOpen looks for here, and what bluefin itself needs.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::machine::doctor::check_workers;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::arch::Vendor;
use bluefin_common::kfd;
use bluefin_common::target::Target;
use bluefin_exporter::doctor::{Environment, Report, Request, Severity, examine};
use bluefin_exporter::install::{MiopenVersion, RocmVersion, Versions};
use bluefin_terminal::out;
use bluefin_terminal::sheet::{Sheet, TableArgs, cell, number, text};

/// Tell which databases MIOpen will look for here, what is there, and why something that is there is not used
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
        bluefin doctor\n  \
        bluefin doctor --prefix /opt/rocm-6.2.0 --target gfx90a-104 --json\n\n\
        Run it in the environment of the application: MIOPEN_... variables and HOME count. With broker and store named it also \
        tells whether they can be reached. Exit code 1 if there are findings.")]
pub struct DoctorArgs {
    /// Where ROCm is
    #[arg(long, value_name = "DIR", default_value = "/opt/rocm")]
    prefix: PathBuf,
    /// The device that MIOpen will run on, such as gfx90a-104 [default: those of this machine]
    #[arg(long, alias = "device")]
    target: Option<Target>,
    /// The ROCm that is there [default: what the prefix says]
    #[arg(long, value_name = "VERSION")]
    rocm_version: Option<RocmVersion>,
    /// The MIOpen that is there [default: what the prefix says]
    #[arg(long, value_name = "VERSION")]
    miopen_version: Option<MiopenVersion>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl DoctorArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(target) = self.target.as_ref().filter(|target| target.vendor() != Some(Vendor::Amd)) {
            return Err(crate::usage(format!("--target {target}: MIOpen runs on gfx… devices only")));
        }
        let request = Request {
            prefix: self.prefix.clone(),
            versions: Versions { rocm: self.rocm_version, miopen: self.miopen_version.clone() },
            target: self.target.clone(),
            topology: kfd::topology(),
            environment: Environment { get: &|name| std::env::var_os(name) },
        };
        let mut report = examine(&request);
        check_workers(&self.fleet, &mut report).await;
        if self.json {
            out::json(&report)?;
        } else {
            print(&report)?;
        }
        Ok(if report.has_findings() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(report: &Report) -> std::io::Result<()> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_string());
    out::line(format_args!("ROCm     {}\nMIOpen   {}", known(&report.rocm), known(&report.miopen)))?;
    out::line(format_args!("devices  {}", report.devices.join(", ")))?;
    out::line(format_args!("system   {}", report.system_folder.display()))?;
    if let (Some(user), Some(cache)) = (&report.user_folder, &report.cache_folder) {
        out::line(format_args!("user     {}\nkernels  {}", user.display(), cache.display()))?;
    }
    if !report.expected.is_empty() {
        let mut sheet = Sheet::new([text("MIOpen looks for"), text("what"), number("records"), number("bytes")]);
        for expected in &report.expected {
            let name = expected.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let whose = if expected.user { "user's" } else { "system" };
            let bytes = expected.bytes.map_or_else(|| "not there".to_string(), |bytes| bytes.to_string());
            sheet.row([
                cell(name),
                cell(format!("{whose} {}{}", expected.kind, expected.keys.suffix())),
                cell(expected.records.map(|records| records.to_string()).unwrap_or_default()),
                cell(bytes),
            ]);
        }
        TableArgs::default().print(&sheet)?;
    }
    for told in &report.told {
        let mark = match told.severity {
            Severity::Note => "note   ",
            Severity::Finding => "FINDING",
        };
        out::prose(format_args!("{mark} {}: {}", told.subject, told.text))?;
    }
    Ok(())
}
