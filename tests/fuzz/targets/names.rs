//! Short texts from command lines, messages and files: what parses prints as it was.
#![no_main]

use bluefin_common::algorithm::Algorithm;
use bluefin_common::digest::Digest;
use bluefin_common::problem::{DataType, Direction, Layout};
use bluefin_common::session::SessionName;
use bluefin_common::target::Target;
use bluefin_producer::plan::CandidateBudget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<SessionName>() {
        assert_eq!(name.as_str(), text);
        assert!(!text.contains('/') && !text.starts_with('.'), "it becomes part of file names");
    }
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse::<Target>().ok(), Some(target.clone()));
        assert!(!target.db_basename().contains('/'), "it becomes a file name");
        drop((target.wave(), target.backend()));
    }
    if let Ok(budget) = text.parse::<CandidateBudget>() {
        assert_eq!(budget.to_string().parse::<CandidateBudget>().ok(), Some(budget));
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.to_string(), text.to_ascii_lowercase());
    }
    let _ = (text.parse::<Algorithm>(), text.parse::<DataType>(), text.parse::<Layout>(), text.parse::<Direction>());
});
