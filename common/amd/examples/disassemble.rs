//! Prints instructions as bluefin decodes them: of each line `gfx942 64 7E000281 00000000` (target, lanes of a wave, words) the words that the
//! instruction has and its text, or why it is not known. `isa/compare.py` compares that with LLVM.

use std::io::{BufRead as _, Write as _};

use bluefin_amd::{Target, disassemble};

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut parts = line.split_whitespace();
        let target = parts.next().and_then(Target::named);
        let lanes = parts.next().and_then(|lanes| lanes.parse().ok());
        let words: Vec<u32> = parts.map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
        let (Some(target), Some(lanes)) = (target, lanes) else {
            return Err(std::io::Error::other(format!("{line}: expected a target, lanes and words")));
        };
        match disassemble(&words, target, lanes) {
            (Ok(text), length) => writeln!(out, "{length}\t{text}")?,
            (Err(reason), length) => writeln!(out, "{length}\t! {reason}")?,
        }
    }
    Ok(())
}
