//! `bluefin --version --verbose`: which build this is, and what was found beside it.

use std::ffi::OsString;
use std::process::ExitCode;

use bluefin_campaign::config;
use bluefin_campaign::machine::{devices, doctor};
use bluefin_common::secrets;
use bluefin_terminal::out;

/// As `--version` has it.
pub const SHORT: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BLUEFIN_BUILD"), ")");

/// Whether `arguments` ask for all of it.
pub fn is_asked(arguments: &[OsString]) -> bool {
    let has = |names: [&str; 2]| arguments.iter().skip(1).any(|argument| names.iter().any(|name| argument == name));
    arguments.len() == 3 && has(["--version", "-V"]) && has(["--verbose", "-v"])
}

/// Prints it.
pub async fn print() -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().map_or_else(|error| error.to_string(), |path| path.display().to_string());
    out::line(format_args!("bluefin    {SHORT}"))?;
    out::line(format_args!("built      for {} by {}", env!("BLUEFIN_TARGET"), env!("BLUEFIN_RUSTC")))?;
    out::line(format_args!("program    {program}"))?;
    let config = config::get().path.as_ref().map_or("none".to_string(), |path| path.display().to_string());
    out::line(format_args!("config     {}", config::check().err().map_or(config, |error| error.to_string())))?;
    for (name, found) in doctor::compilers().await {
        let found = found.unwrap_or_else(|reason| format!("not usable: {reason}"));
        out::line(format_args!("compiler   {name}: {}", found.replace('\n', "; ")))?;
    }
    let inventory = devices::inventory().await?;
    for device in inventory.gpus.iter().chain(&inventory.host) {
        let driver = if device.driver.is_empty() { String::new() } else { format!(", driver {}", device.driver) };
        out::line(format_args!("device     {}: {} ({}){driver}", device.device, device.name, device.target))?;
    }
    for note in &inventory.notes {
        out::line(format_args!("device     {note}"))?;
    }
    // Names alone: values may be secrets.
    let mut set: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("BLUEFIN_") && name != "BLUEFIN_SECRETS")
        .collect();
    set.extend(
        secrets::VARIABLES.iter().filter(|name| matches!(secrets::value(name), Ok(Some(_)))).map(ToString::to_string),
    );
    set.sort_unstable();
    set.dedup();
    let set = if set.is_empty() { "none".to_string() } else { set.join(" ") };
    out::line(format_args!("variables  {set}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flags_ask_for_it() {
        let asked = |line: &str| is_asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asked("bluefin --version --verbose") && asked("bluefin -v -V"));
        assert!(
            !asked("bluefin --version") && !asked("bluefin tune --verbose") && !asked("bluefin --verbose --verbose")
        );
    }
}
