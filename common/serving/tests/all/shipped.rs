//! The config files that the engines ship, as `tests/data/README.md` says.

use std::path::PathBuf;

use bluefin_serving::Engine;
use bluefin_test_support::data_text;

/// A file with its place below the engine's folder.
pub struct Shipped {
    pub engine: Engine,
    pub path: PathBuf,
    pub text: String,
}

impl Shipped {
    pub fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }
}

/// All files of both engines.
pub fn shipped() -> Vec<Shipped> {
    let mut files = Vec::new();
    for (engine, list) in [(Engine::VLLM, "serving/vllm-0.33.0.txt"), (Engine::SGLANG, "serving/sglang-0.5.23.txt")] {
        let list = data_text(list);
        let mut rest = list.as_str();
        while let Some((head, body)) = rest.split_once('\n') {
            let (path, length) = head.strip_prefix("# ").unwrap().rsplit_once(' ').unwrap();
            let (text, after) = body.split_at(length.parse().unwrap());
            files.push(Shipped { engine, path: PathBuf::from(path), text: text.to_string() });
            rest = after.strip_prefix('\n').unwrap();
        }
    }
    files
}
