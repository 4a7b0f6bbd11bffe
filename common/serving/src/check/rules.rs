//! The rules of a check, and how bad it is to break them.

/// Columns of the list of rules, and of what stands before what a rule is about.
const COLUMNS: usize = 80;
const HEAD: usize = 24;

/// The rules for people: name, severity, and what breaks it, over as many lines as that takes.
#[must_use]
pub fn listing() -> String {
    let mut text = String::new();
    for rule in Rule::ALL {
        let mut line = format!("{:<14} {:<8}", rule.name(), rule.severity().to_string());
        for word in rule.about().split(' ') {
            if line.len() + 1 + word.len() > COLUMNS {
                text.push_str(&line);
                text.push('\n');
                line = " ".repeat(HEAD - 1);
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text.trim_end().to_string()
}

bluefin_common::check_rules! {
    Torn "torn" Error "The file is no JSON, or no object: the engine stops when it loads it"
    Name "name" Error "No loader of the engine builds this name, so the file is never read"
    Key "key" Error "A key is no batch size, or is there twice"
    Version "version" Error "triton_version is no version, or the engine's loader takes none"
    OtherTriton "other-triton" Warning "The file was made with another Triton than the one at hand"
    Row "row" Error "A row is no object, or lacks a block size"
    UnknownKey "unknown-key" Error "A row has a key that no launcher of the engine takes, or that Triton does not know for such a GPU"
    Value "value" Error "A value is no whole number from 1 on, no power of two where it has to be, or one that Triton does not compile"
    Block "block" Error "BLOCK_SIZE_K does not divide the block of the scales: the engine computes what is wrong"
    Lowered "lowered" Note "The engine launches the block of the scales instead of this BLOCK_SIZE_K"
    Memory "memory" Error "The config needs more shared memory than a block may have: it can not be launched"
    Compiler "compiler" Warning "Triton of that version is known to fail for such a config"
    Device "device" Note "The name of the GPU is of no one architecture that is known: shared memory is not checked without --target"
    Gap "gap" Warning "Batch sizes of the tuners' ladder have no row: the nearest one rules them, however far it is"
    Down "down" Warning "The file of the second GEMM has another BLOCK_SIZE_M than that of the first, which the engine replaces, or there is none of the first"
}
