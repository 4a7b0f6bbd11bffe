//! A bar of what is counted, on standard error.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar up to `length` of what is counted, where there is a terminal.
pub fn up_to(length: u64, counted: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("[{bar:40}] {pos}/{len} {prefix}, {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style).with_prefix(counted)
}

/// A bar for a terminal up to so many turns, with what goes on below it.
pub fn of_turns(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:40}] {pos}/{len} turns, {elapsed}\n{wide_msg}");
    let bar = ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}
