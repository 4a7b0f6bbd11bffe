//! Stands in for MIOpen's fin.

fn main() -> std::process::ExitCode {
    bluefin_stand_ins::fin::main()
}
