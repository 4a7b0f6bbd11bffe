//! aiter's CSV files and what its tuners print: a file comes back byte for byte, and whatever is asked of it ends.
#![no_main]

use std::path::Path;

use bluefin_aiter::check::{Strictness, check};
use bluefin_aiter::coverage::{coverage, shapes_of};
use bluefin_aiter::diff::{Limits, diff};
use bluefin_aiter::families::FAMILIES;
use bluefin_aiter::merge::{Policy, Terms, merge};
use bluefin_aiter::{Files, Rules, Sheet, Table, log, operator};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the family, or lets the columns tell it.
    let Some((first, bytes)) = bytes.split_first() else { return };
    let family = FAMILIES.get(usize::from(*first));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = log::read(text, family);
        family.map(|family| operator::read(family, text));
    }
    let Ok(table) = Table::parse(Path::new("fuzz.csv"), bytes.to_vec()) else { return };
    assert_eq!(table.to_bytes(), bytes, "what was not changed is written as it was read");
    let Ok(sheet) = Sheet::of(table, family) else { return };
    let files = Files { sheets: vec![sheet.clone()], torn: Vec::new() };
    let _ = check(&files, &Strictness::default());
    let sheets = [sheet.clone()];
    let _ = coverage(&sheets, &shapes_of(&sheet), &[], &Rules::default());
    assert_eq!(diff(&sheets, &sheets, Limits::default()).regressions(), 0, "nothing got slower");
    for policy in [Policy::Newest, Policy::Fastest, Policy::Improved(3.0)] {
        let _ = merge(sheet.clone(), &sheets, Terms { policy, error_limit: Some(0.05) });
    }
});
