//! Tells a build what it is of: the commit of a release, the machine that it is for, the compiler.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let build = if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // A commit would build everything that depends on it again, so that other builds do not ask.
        let git = |arguments: &[&str]| {
            let said = Command::new("git").args(arguments).output().ok().filter(|said| said.status.success())?;
            Some(String::from_utf8(said.stdout).ok()?.trim().to_string())
        };
        // A new commit is a line of the log where there is one, else another text of the branch.
        let branch = git(&["symbolic-ref", "-q", "HEAD"]);
        let files = ["logs/HEAD", "HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
        let files = files.filter_map(|file| git(&["rev-parse", "--git-path", file]));
        // What is not there would be taken for changed each time.
        for file in files.filter(|file| Path::new(file).exists()) {
            println!("cargo:rerun-if-changed={file}");
        }
        let commit = git(&["rev-parse", "--short=12", "HEAD"]);
        commit.map_or("release, of no known commit".to_string(), |commit| format!("release, commit {commit}"))
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
