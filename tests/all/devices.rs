//! `bluefin devices`, and what `--device` makes of what it shows.

use std::path::Path;
use std::process::{Command, Output};

use bluefin_test_support::hip::HipMachine;

fn bluefin(machine: &HipMachine, arguments: &[&str]) -> Output {
    Command::new(Path::new(env!("CARGO_BIN_EXE_bluefin")))
        .args(arguments)
        .envs(machine.environment())
        .current_dir(machine.folder())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn devices_are_shown_with_all_that_is_known() {
    let machine = HipMachine::new("gfx90a-104,gfx942-304");
    let output = bluefin(&machine, &["devices", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let inventory: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let gpus: Vec<(&str, &str, &str)> = inventory["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|gpu| gpu["device"].as_str().is_some_and(|device| device.starts_with("hip:")))
        .map(|gpu| (gpu["target"].as_str().unwrap(), gpu["uuid"].as_str().unwrap(), gpu["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        gpus,
        [
            ("gfx90a-104", &*machine.uuid(0), "AMD Instinct MI210"),
            ("gfx942-304", &*machine.uuid(1), "AMD Instinct MI300X")
        ]
    );
    let table = text(&bluefin(&machine, &["devices"]).stdout);
    assert!(table.contains("gfx942-304") && table.contains("HIP 6.4."), "{table}");
}

#[test]
fn a_device_that_is_not_here_is_wrong_usage() {
    let machine = HipMachine::new("gfx90a-104,gfx942-304");
    let output = bluefin(&machine, &["tune", "--device", "gfx1100-96", "problems.txt"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("--device: found \"gfx1100-96\", expected one of host, 0 ("), "{error}");
    let output = bluefin(&machine, &["tune", "--device", "hip:0,hip:1", "problems.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected those of one target"), "{}", text(&output.stderr));
}

#[test]
fn the_host_passes_its_own_test() {
    let output = bluefin(&HipMachine::new(""), &["selftest", "--device", "host", "--json"]);
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = reports[0]["checks"].as_array().unwrap();
    let result = |name: &str| {
        let mut named = checks.iter().filter(|check| check["name"].as_str().is_some_and(|own| own.starts_with(name)));
        named.next().map(|check| check["result"].as_str().unwrap().to_string())
    };
    // Times of a busy machine are not what this is about.
    for name in ["probe", "code that is none", "code for another device", "more memory", "conv-fwd-host", "gemm-host"] {
        assert_eq!(result(name).as_deref(), Some("passed"), "{name}: {reports:#}");
    }
}
