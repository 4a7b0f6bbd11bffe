//! `bluefin-chaos`: random faults of all kinds, and what must hold nevertheless.
//!
//!     cargo run -p bluefin-chaos -- --minutes 10 --seed 1
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use bluefin_chaos::{Config, run};
use clap::Parser;

/// Disturb a fleet of bluefin's processes at random, and see whether anything is lost
#[derive(Parser)]
struct Args {
    /// How long faults are made
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u32,
    /// What the faults follow from [default: a random number]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Seconds for which nothing may be done, before everything has come to its end, once all is healed
    #[arg(long, value_name = "N", default_value_t = 240)]
    patience: u64,
    /// The program [default: the one beside this, built anew if this was started by cargo]
    #[arg(long, value_name = "FILE")]
    bluefin: Option<PathBuf>,
    /// Keep the logs, though all holds
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let bluefin = args.bluefin.unwrap_or_else(beside_this);
    let folder = tempfile::Builder::new().prefix("bluefin-chaos-").tempdir().expect("a folder can be made").keep();
    // Of the servers, too.
    tempfile::env::override_temp_dir(&folder).expect("nothing has overridden it before");
    let (lasts, patience) = (Duration::from_secs(60) * args.minutes, Duration::from_secs(args.patience));
    let holds = run(&Config { bluefin, folder: folder.clone(), seed, lasts, patience });
    if holds && !args.keep {
        // A server that is being killed may write a last file, which then stays.
        let _ = std::fs::remove_dir_all(&folder);
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn beside_this() -> PathBuf {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let built =
            Command::new(cargo).args(["build", "--quiet", "--bin", "bluefin", "--manifest-path", manifest]).status();
        assert!(built.is_ok_and(|status| status.success()), "bluefin can not be built");
    }
    std::env::current_exe().expect("this program has a path").with_file_name("bluefin")
}
