//! Logging: to standard error, level by `BLUEFIN_LOG`, as JSON lines by `--log json`.

use bluefin_terminal::colour;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging. `BLUEFIN_LOG` takes levels and filters as `RUST_LOG` does in other programs (`debug`,
/// `info,bluefin_common=debug`); `default` applies without it.
///
/// # Errors
/// If `BLUEFIN_LOG` does not parse.
pub fn start(format: LogFormat, default: &str) -> anyhow::Result<()> {
    let filter = match std::env::var("BLUEFIN_LOG") {
        Ok(text) => EnvFilter::try_new(&text)
            .map_err(|error| anyhow::anyhow!("BLUEFIN_LOG: found {text:?}, expected a level or filters: {error}"))?,
        // lapin reports as errors what closes in order, too; what matters of it is in our own warnings.
        Err(_) => EnvFilter::new(format!("{default},lapin=off")),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would say so on standard error, and panic amid the work where that fails too: on a disk that is full.
        .log_internal_errors(false)
        .with_ansi(colour::on(&std::io::stderr()));
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
