//! Config files of serving engines, their names, and configs of models: a file comes back byte for byte, and whatever is asked of it ends.
#![no_main]

use std::path::Path;

use bluefin_serving::check::{Strictness, check};
use bluefin_serving::diff::diff;
use bluefin_serving::files::Found;
use bluefin_serving::shapes::{AskedType, Model, Ranks};
use bluefin_serving::{ConfigFile, Document, Engine, FileName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first line is the name of the file.
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (name, text) = text.split_once('\n').unwrap_or((text, ""));
    let path = Path::new("fuzz.json");
    for engine in Engine::ALL {
        let parsed = FileName::parse(name);
        if let Ok(parsed) = &parsed {
            let built = parsed.build(engine);
            let _ = parsed.is_built(name, engine);
            let _ = FileName::parse(&built);
        }
        if let Ok(config) = ConfigFile::parse(path, text, engine) {
            assert_eq!(config.text(), text, "what was not changed is written as it was read");
            let _ = config.row_for(64);
        }
        let document = Document::parse(path, text);
        let found = Found { path: path.to_path_buf(), engine, name: parsed, folder: None, document };
        let _ = check(std::slice::from_ref(&found), &Strictness::default());
        if let Ok(diff) = diff(std::slice::from_ref(&found), std::slice::from_ref(&found)) {
            assert!(diff.changes.is_empty(), "a file is as it is");
        }
    }
    let Ok(model) = Model::parse(path, text, AskedType::Auto) else { return };
    for (engine, ranks) in Engine::ALL.into_iter().flat_map(|engine| [1, 8].map(|tp| (engine, Ranks { tp, ep: 1 }))) {
        let _ = model.moes(engine, ranks, bluefin_common::arch::Vendor::Nvidia);
        let _ = model.gemms(ranks, true);
    }
});
