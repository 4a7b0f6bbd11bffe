//! Another config in the place of a size's: nothing else of a file of tune_gemm.py changes, however it is laid out.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use yaml_rust2::parser::{Event, MarkedEventReceiver, Parser};
use yaml_rust2::scanner::Marker;

use super::files::{self, CONFIG, DEFAULTS, Size, number, tflops};
use super::space::Config;

/// How the script's comment on a config begins.
const COMMENT: &str = "# TFLOPS:";

/// The text of a file with `config` in the place of what `size` has there, which takes `us` microseconds. Keys that neither says stay as
/// they are.
///
/// # Errors
/// If the file has no such size, or is laid out in a way that hides where its numbers are.
pub fn with_config(text: &str, size: &Size, config: &Config, us: f64) -> anyhow::Result<String> {
    let items = files::items(text)?;
    // Of a size that is there twice the later one counts.
    let at = items.iter().rposition(|(_, entry)| entry.size == *size);
    let (at, line) = at.and_then(|at| Some((at, items.get(at)?.0))).context("found no such size")?;
    let place = Places::of(text)?.into_iter().nth(at).with_context(|| format!("line {line}"))?;
    let edited = place.edited(text, config, number(tflops(size, us)), number(us));
    let mut expected = files::parse(text, |_| {})?;
    for entry in expected.iter_mut().filter(|entry| entry.size == *size) {
        entry.config.get_or_insert_default().extend(config.clone());
    }
    let found = files::parse(&edited, |_| {}).ok();
    ensure!(
        found.as_ref() == Some(&expected),
        "line {line}: found a config whose place is not clear, expected numbers as tune_gemm.py writes them"
    );
    Ok(edited)
}

/// A scalar of a text, in characters.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    /// Column of its key.
    column: usize,
}

/// Where the values of an item of the list are, by key: those of a regression report's config as well.
#[derive(Debug, Default)]
struct Item(BTreeMap<String, Place>);

/// The items of a list.
#[derive(Default)]
struct Places {
    items: Vec<Item>,
    /// Of each mapping or list that is open the key that waits for its value, with its column.
    open: Vec<Option<(String, usize)>>,
}

impl Places {
    fn of(text: &str) -> anyhow::Result<Vec<Item>> {
        let mut places = Self::default();
        Parser::new(text.chars()).load(&mut places, false).context("expected YAML")?;
        Ok(places.items)
    }

    fn scalar(&mut self, text: String, mark: Marker) {
        let Some(key) = self.open.last_mut() else { return };
        let Some((name, column)) = key.take() else {
            *key = Some((text, mark.col()));
            return;
        };
        let (start, end) = (mark.index(), mark.index() + text.chars().count());
        if let Some(item) = self.items.last_mut() {
            item.0.insert(name, Place { start, end, column });
        }
    }
}

impl MarkedEventReceiver for Places {
    fn on_event(&mut self, event: Event, mark: Marker) {
        match event {
            Event::SequenceStart(..) => self.open.push(None),
            Event::MappingStart(..) => {
                if self.open.len() == 1 {
                    self.items.push(Item::default());
                }
                self.open.push(None);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                if let Some(key) = self.open.last_mut() {
                    *key = None;
                }
            }
            Event::Scalar(text, ..) => self.scalar(text, mark),
            Event::Alias(_) => self.scalar(String::new(), mark),
            _ => {}
        }
    }
}

impl Item {
    fn edited(&self, text: &str, config: &Config, tflops: String, us: String) -> String {
        let text: Vec<char> = text.chars().collect();
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        let last = CONFIG.iter().filter_map(|key| self.0.get(*key)).max_by_key(|place| place.start);
        for (key, value) in config {
            let implied = DEFAULTS.iter().find(|(name, _)| name == key).map(|(_, value)| value);
            match (self.0.get(key), last) {
                (Some(place), _) => edits.push((place.start, place.end, value.to_string())),
                (None, Some(last)) if implied != Some(value) => {
                    let line = text.iter().take(last.start).rposition(|one| *one == '\n').map_or(0, |at| at + 1);
                    let is_flow = text.get(line..last.start).is_some_and(|before| before.contains(&'{'));
                    let more = match is_flow {
                        true => format!(", '{key}': {value}"),
                        false => format!("\n{}{key}: {value}", " ".repeat(last.column)),
                    };
                    edits.push((last.end, last.end, more));
                }
                (None, _) => {}
            }
        }
        // A report of a regression.
        if let Some(place) = self.0.get("tflops") {
            edits.push((place.start, place.end, tflops.clone()));
        }
        let behind = self.0.values().map(|place| place.end).max().unwrap_or(0);
        let rest: String = text.iter().skip(behind).take_while(|one| **one != '\n').collect();
        if let Some((before, comment)) = rest.split_once(COMMENT) {
            let start = behind + before.chars().count();
            let end = start + COMMENT.chars().count() + comment.trim_end().chars().count();
            edits.push((start, end, format!("{COMMENT} {tflops} time(us): {us}")));
        }
        edits.sort();
        let (mut edited, mut at) = (String::new(), 0);
        for (start, end, new) in edits {
            edited.extend(text.get(at..start).unwrap_or_default());
            edited.push_str(&new);
            at = end;
        }
        edited.extend(text.get(at..).unwrap_or_default());
        edited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "- {'M': 1, 'N': 1, 'K': 1, 'rowMajorA': 'T', 'rowMajorB': 'N'}";

    fn flow(warps: u32, comment: &str) -> String {
        format!(
            "- {{'M': 640, 'N': 512, 'K': 256, 'mine': 'é', 'BLOCK_SIZE_M': 128, 'BLOCK_SIZE_N': 64, 'BLOCK_SIZE_K': 64, \
             'GROUP_SIZE_M': 4, 'SPLIT_K': 1, 'num_warps': {warps}, 'num_stages': 2}}{comment}"
        )
    }

    fn edited(text: &str, config: &[(&str, i64)]) -> anyhow::Result<String> {
        let size = Size { m: 640, n: 512, k: 256, row_a: true, row_b: true };
        let config = config.iter().map(|(key, value)| (key.to_string(), *value)).collect();
        with_config(text, &size, &config, 50.0)
    }

    #[test]
    fn only_numbers_of_the_config_change() {
        let text = format!("# mine\n{OTHER}\n{}\n", flow(4, "   # TFLOPS: 1.00 time(us): 99.00"));
        let expected = format!("# mine\n{OTHER}\n{}\n", flow(8, "   # TFLOPS: 3.36 time(us): 50.00"));
        assert_eq!(edited(&text, &[("num_warps", 8), ("kpack", 1)]).unwrap(), expected);
        // What is there twice, without a comment, and with a key that is new.
        let text = format!("{}\n{}\n", flow(4, ""), flow(2, ""));
        let expected = format!("{}\n{}\n", flow(4, ""), flow(1, "").replace("2}", "2, 'kpack': 2}"));
        assert_eq!(edited(&text, &[("num_warps", 1), ("kpack", 2)]).unwrap(), expected);
    }

    #[test]
    fn other_layouts_are_kept() {
        let config = flow(4, "");
        let config = config.trim_start_matches("- ");
        let text = format!("- config: {config}\n  tflops: 1.5\n");
        let expected = text.replace("'num_warps': 4", "'num_warps': 8").replace("1.5", "3.36");
        assert_eq!(edited(&text, &[("num_warps", 8)]).unwrap(), expected);
        let block: String = config.trim_matches(['{', '}']).split(", ").map(|field| format!("  {field}\n")).collect();
        let block = format!("-{}", &block[1..]);
        let expected = block.replace("'num_stages': 2", "'num_stages': 3\n  kpack: 2");
        assert_eq!(edited(&block, &[("num_stages", 3), ("kpack", 2)]).unwrap(), expected);
    }

    #[test]
    fn a_number_whose_place_is_not_clear_is_left() {
        let text = flow(4, "").replace("_M': 4", "_M': &four 4").replace("'num_warps': 4", "'num_warps': *four");
        let error = edited(&text, &[("num_warps", 8)]).unwrap_err().to_string();
        assert!(error.starts_with("line 1: found a config whose place is not clear"), "{error}");
        let error = edited(OTHER, &[]).unwrap_err().to_string();
        assert_eq!(error, "found no such size");
    }
}
