//! What people get: the wheel in a fresh virtual environment, and the archive. Neither needs a compiler of Rust.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bluefin_test_support::left_out;

use crate::common::{expect, text};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Python that can make virtual environments, if there is one.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import venv, ensurepip"]).output();
        found.is_ok_and(|found| found.status.success())
    })
}

#[test]
fn a_wheel_is_installed_and_tunes() {
    let Some(python) = python() else { return left_out("no Python that makes virtual environments") };
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    let program = env!("CARGO_BIN_EXE_bluefin");
    let packed = expect(Command::new(python).arg(root().join("python/wheel")).args([Path::new(program), &dist]), 0);
    let wheel = PathBuf::from(text(&packed.stdout).trim());
    assert!(wheel.to_string_lossy().contains("-py3-none-manylinux_2_"), "{}", wheel.display());

    let begun = Instant::now();
    let fresh = folder.path().join("fresh");
    expect(Command::new(python).args(["-m", "venv"]).arg(&fresh), 0);
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(fresh.join("bin/pip"));
        pip.args(["--disable-pip-version-check", "install", "--no-index", "--quiet"]).args(arguments);
        expect(&mut pip, 0)
    };
    pip(&[&wheel.to_string_lossy()]);
    let mut tried = Command::new(root().join("python/try"));
    // No compiler of Rust is found.
    tried
        .arg(fresh.join("bin/python"))
        .env("PATH", "/usr/bin:/bin")
        .env_remove("BLUEFIN_AMQP_URL")
        .env_remove("BLUEFIN_REDIS_URL");
    let said = text(&expect(&mut tried, 0).stdout);
    assert!(said.contains("<bluefin.Tuned: 1 of 1 problems have a winner"), "{said}");
    println!("installed and tuned in {:?}", begun.elapsed());
    applies(&fresh);
}

/// The hook for Triton, from inside a program, where there is a Python with Triton.
fn applies(fresh: &Path) {
    let Some(python) = std::env::var_os("BLUEFIN_TEST_PYTHON") else { return left_out("no Python with Triton") };
    let folder = fresh.join("tuned");
    std::fs::create_dir(&folder).unwrap();
    let tuned = r#"{"format": 1, "target": {"backend": "cuda", "arch": 90}, "kernels": []}"#;
    std::fs::write(folder.join("triton-tuned.json"), tuned).unwrap();
    let packages = std::fs::read_dir(fresh.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let program = "import sys, os, bluefin.triton\n\
        bluefin.triton.apply(sys.argv[1])\n\
        from triton.runtime.autotuner import Autotuner\n\
        assert Autotuner.run.__wrapped__ and 'BLUEFIN_TRITON' not in os.environ\n";
    let mut wrapped = Command::new(python);
    expect(wrapped.env("PYTHONPATH", packages).args(["-c", program]).arg(&folder), 0);
}

#[test]
fn an_archive_has_what_belongs_to_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Command::new(root().join("deploy/archive"));
    expect(archive.arg(env!("CARGO_BIN_EXE_bluefin")).arg(folder.path()), 0);
    expect(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()), 0);
    let named = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let packed = named.into_iter().find(|path| path.to_string_lossy().ends_with(".tar.gz")).unwrap();
    let listed = text(&expect(Command::new("tar").arg("--list").arg("--file").arg(&packed), 0).stdout);
    for name in
        ["/bluefin\n", "/LICENSE\n", "/completions/_bluefin\n", "/man/man1/bluefin-tune.1\n", "/docs/install.md\n"]
    {
        assert!(listed.contains(name), "{name}: {listed}");
    }
}
