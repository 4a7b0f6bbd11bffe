//! Stands in for MIOpenDriver.

fn main() -> std::process::ExitCode {
    bluefin_stand_ins::driver::main()
}
