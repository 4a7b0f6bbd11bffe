//! The child process: runs candidates on one device, and is lost to the ones that crash or hang. It knows neither broker
//! nor store; its parent talks to it through its standard input and output.

mod checker;
mod evaluation;
mod isolation;
mod posed;
mod reporter;
mod serve;

use std::process::ExitCode;

use crate::device::host::HostDevice;

/// Runs the child for the device called `device`, until its parent closes the pipe. Call it first thing in `main`: it
/// takes over standard input and output.
#[must_use]
pub fn main(device: &str) -> ExitCode {
    let result = match device {
        "host" => {
            isolation::enter().map_err(Into::into).and_then(|pipes| serve::serve(pipes, || Ok(HostDevice::new())))
        }
        _ => {
            eprintln!("device: found {device:?}, expected host");
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
