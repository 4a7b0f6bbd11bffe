//! GPUs that are not there: how their children are started, and kernels for them.

use std::ffi::OsString;

use bluefin_common::artifact::{Argument, ArtifactRef, Built, CodeObject, Launch};
use bluefin_eval_worker::inventory::Inventory;
use bluefin_eval_worker::{ChildConfig, Runnable};
use bluefin_test_support::hip::HipMachine;

use super::{LENGTH, RIGHT, child, compile};

/// The machine's devices, as `bluefin devices` finds them.
pub async fn inventory(machine: &HipMachine) -> Inventory {
    let mut command: Vec<OsString> = vec!["env".into()];
    for (variable, value) in machine.environment() {
        let mut pair = OsString::from(format!("{variable}="));
        pair.push(value);
        command.push(pair);
    }
    command.extend([std::env::current_exe().unwrap().into(), "eval-child".into(), "--list".into()]);
    Inventory::take(&command).await
}

/// How the child of the GPU at `index` is started.
pub async fn gpu(machine: &HipMachine, index: usize) -> ChildConfig {
    let inventory = inventory(machine).await;
    let device = inventory.gpus.get(index).unwrap_or_else(|| panic!("no such GPU: {inventory:?}"));
    let mut config = inventory.children(&[device], &child()).remove(0);
    let variables = machine.environment().into_iter();
    config.environment.extend(variables.map(|(name, value)| (name, Some(value.into_string().unwrap()))));
    config
}

/// A kernel of the stand-in that runs `body` over `x`, `y` and `n`; `more` stands beside it.
pub fn kernel(name: &str, body: &str, more: &str) -> Runnable {
    let source = format!(
        "#include <stdint.h>\n\
         static volatile int64_t zero;\n\
         void bluefin_standin_{name}(void **arguments, const uint32_t *geometry) {{\n\
         float *x = *(float **)arguments[0], *y = *(float **)arguments[1];\n\
         int64_t n = *(int64_t *)arguments[2];\n\
         (void)x; (void)y; (void)n; (void)zero;\n\
         {body}\n}}\n\
         const uint32_t bluefin_standin_{name}_sizes[] = {{8, 8, 8, 0}};\n\
         {more}\n"
    );
    let code = compile(&source);
    let arguments = vec![Argument::Buffer(0), Argument::Buffer(1), Argument::I64(LENGTH as i64)];
    let launch = Launch { entry: name.to_string(), grid: [4, 1, 1], block: [256, 1, 1], shared: 0, arguments };
    let objects = vec![CodeObject::plain(ArtifactRef::of(&code), "", "")];
    Runnable { built: Built { objects, launches: vec![launch], workspace: 0 }, code, image: None }
}

pub fn right(name: &str) -> Runnable {
    kernel(name, RIGHT, "")
}
