//! Tests that can not be run on this machine say so, and what is missing. In CI, which has all that tests need but hardware, they fail.

/// Says that the rest of a test is left out for want of `what`.
///
/// # Panics
/// In CI, where `CI` is set: a test that is left out there would count as passed forever.
#[track_caller]
pub fn left_out(what: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "in CI no test is left out but for hardware, and this is not there: {what}"
    );
    println!("SKIP: {what}");
}

/// A Python that has Triton, which `BLUEFIN_TEST_PYTHON` names. Where it names none the test is [left out](left_out).
#[must_use]
#[track_caller]
pub fn triton_python() -> Option<std::ffi::OsString> {
    let python = std::env::var_os("BLUEFIN_TEST_PYTHON");
    if python.is_none() {
        left_out("BLUEFIN_TEST_PYTHON names no Python with Triton");
    }
    python
}

/// Says that the rest of a test is left out, as this machine has no such hardware, nor the software that comes with it, a kernel included.
pub fn left_out_for_hardware(what: &str) {
    println!("SKIP: {what}");
}
