//! The child process: runs candidates on one device, and is lost to the ones that crash or hang. It knows neither broker
//! nor store; its parent talks to it through its standard input and output.

mod checker;
mod evaluation;
mod isolation;
mod posed;
mod reporter;
mod serve;

use std::process::ExitCode;

use bluefin_common::isolation::Isolation;

use crate::device::DeviceError;
use crate::device::gpu::{Gpu, Interface};
use crate::device::host::HostDevice;

/// Runs the child for the device called `device` (`host`, `cuda:0`, `hip:0`), until its parent closes the pipe. Call it
/// first thing in `main`: it takes over standard input and output.
#[must_use]
pub fn main(device: &str) -> ExitCode {
    let gpu = |interface| {
        let number = device.split_once(':').and_then(|(_, number)| number.parse().ok());
        move || match number {
            Some(number) => Gpu::open(interface, number),
            None => Err(DeviceError::Lost("expected a number behind its colon".to_string())),
        }
    };
    // A kernel for the host is native code in this process. Before its first thread, so that none is left out.
    if device == "host"
        && let Err(error) = (Isolation { readable: None, timed: true }).enter()
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let Ok(pipes) = isolation::enter().inspect_err(|error| eprintln!("{error}")) else { return ExitCode::FAILURE };
    let result = match device.split_once(':').map_or(device, |(interface, _)| interface) {
        "host" => serve::serve(pipes, || Ok(HostDevice::new())),
        "cuda" => serve::serve(pipes, gpu(Interface::Cuda)),
        "hip" => serve::serve(pipes, gpu(Interface::Hip)),
        _ => {
            eprintln!("device: found {device:?}, expected host, cuda:<number> or hip:<number>");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
