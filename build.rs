//! Tells a release build which commit it is of.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let build = if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // A commit would build everything that depends on it again, so that other builds do not ask.
        // What is not there would be taken for changed each time.
        let log = ".git/logs/HEAD";
        if Path::new(log).exists() {
            println!("cargo:rerun-if-changed={log}");
        }
        let said = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
        let commit =
            said.ok().filter(|said| said.status.success()).and_then(|said| String::from_utf8(said.stdout).ok());
        commit.map_or("release, of no known commit".to_string(), |commit| format!("release, commit {}", commit.trim()))
    } else {
        "debug".to_string()
    };
    println!("cargo:rustc-env=BLUEFIN_BUILD={build}");
}
