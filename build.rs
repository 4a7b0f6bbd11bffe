//! Tells a build what it is of: the commit of a release, the machine that it is for, the compiler.

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
    println!("cargo:rustc-env=BLUEFIN_TARGET={}", env::var("TARGET").unwrap_or_default());
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_string());
    let said = Command::new(rustc).arg("--version").output();
    let rustc = said.ok().and_then(|said| String::from_utf8(said.stdout).ok()).unwrap_or_default();
    println!("cargo:rustc-env=BLUEFIN_RUSTC={}", rustc.trim());
}
