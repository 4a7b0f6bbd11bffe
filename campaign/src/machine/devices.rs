//! How devices of this machine are named on every command line, and the children that serve them.

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::Context;
use bluefin_common::target::Target;
use bluefin_eval_worker::inventory::{DeviceInfo, Inventory};
use bluefin_eval_worker::{ChildConfig, DeviceChild};

use crate::machine::itself;
use crate::usage;

/// All devices of this machine.
pub async fn inventory() -> anyhow::Result<Inventory> {
    Ok(Inventory::take(&list_command()?).await)
}

/// The child of the one device that `text` names.
pub async fn child_of(text: &str) -> anyhow::Result<ChildConfig> {
    let inventory = inventory().await?;
    let selected = inventory.select(text).map_err(|error| usage(format!("--device: {error}")))?;
    let [device] = selected.as_slice() else {
        return Err(usage(format!("--device {text}: found {} devices, expected one", selected.len())));
    };
    let mut children = inventory.children(&[*device], &itself::child()?);
    children.pop().context("a device without a child")
}

/// The command that asks a driver.
fn list_command() -> anyhow::Result<Vec<OsString>> {
    let mut command = itself::command("eval-child")?;
    command.push("--list".into());
    Ok(command)
}

/// How each of `devices` is served.
pub fn serve(inventory: &Inventory, devices: &[&DeviceInfo], child: &ChildConfig) -> anyhow::Result<Vec<DeviceChild>> {
    let served = |(device, child): (&&DeviceInfo, ChildConfig)| {
        let target = device.parse_target().map_err(anyhow::Error::msg)?;
        Ok(DeviceChild { device: device.device.clone(), target, child })
    };
    devices.iter().zip(inventory.children(devices, child)).map(served).collect()
}

/// What the GPUs of this machine are, if they are all the same.
///
/// # Errors
/// If they are not, or there are none.
pub async fn gpu_here() -> anyhow::Result<Target> {
    let inventory = inventory().await?;
    let targets: BTreeSet<&str> = inventory.gpus.iter().map(|gpu| gpu.target.as_str()).collect();
    let name = "pass --target gfx90a-104, or --arch gfx90a and --num-cu 104";
    match targets.iter().collect::<Vec<_>>().as_slice() {
        [one] => Ok(one.parse()?),
        [] => Err(usage(format!("no target, and no GPU here: {name}"))),
        _ => {
            let found = targets.into_iter().collect::<Vec<_>>().join(", ");
            Err(usage(format!("no target, and several GPUs here ({found}): {name}")))
        }
    }
}
