//! The process that compiles with NVRTC: `bluefin nvrtc LIBRARY OPTIONS SOURCE -o OUTPUT`, as a compiler is called. A library that
//! crashes, or has no end, takes no worker with it, and its memory is given back.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::ExitCode;

use crate::device::nvrtc::Nvrtc;

/// In place of all options: prints the release, then the architectures.
const VERSION: &str = "--version";

/// Carries out the arguments of the verb.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    match carry_out(arguments) {
        Ok(said) => {
            print!("{said}");
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("{said}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(arguments: Vec<OsString>) -> Result<String, String> {
    let mut arguments = arguments.into_iter();
    let library = arguments.next().unwrap_or_default();
    let nvrtc = Nvrtc::open(Path::new(&library))?;
    let mut options: Vec<OsString> = arguments.collect();
    if options == [VERSION] {
        let (major, minor) = nvrtc.release()?;
        let known: Vec<String> = nvrtc.architectures()?.iter().map(|number| format!("sm_{number}")).collect();
        return Ok(format!("{major}.{minor}\n{}\n", known.join(" ")));
    }
    let (output, sign, source) = (options.pop(), options.pop(), options.pop());
    let (Some(output), Some(source)) = (output, source.filter(|_| sign.is_some_and(|sign| sign == "-o"))) else {
        return Err("expected LIBRARY OPTIONS SOURCE -o OUTPUT".to_string());
    };
    let text = std::fs::read(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let of_c = |bytes: Vec<u8>, what: &str| CString::new(bytes).map_err(|_| format!("{what}: it holds a zero"));
    let text = of_c(text, &source.display().to_string())?;
    let options =
        options.into_iter().map(|option| of_c(option.into_vec(), "an option")).collect::<Result<Vec<_>, _>>()?;
    let code = nvrtc.compile(&of_c(source.into_vec(), "the source's name")?, &text, &options)?;
    std::fs::write(&output, code).map_err(|error| format!("{}: {error}", output.display()))?;
    Ok(String::new())
}
