//! Checks of one row: keys, values, and whether the kernel can be launched by it.

use bluefin_common::arch::Vendor;
use serde_json::Value as Json;

use super::{Findings, Rule, Strictness, gpu_of, row_of};
use crate::default::Gpu;
use crate::engine::Precision;
use crate::files::Found;
use crate::fit::{COUNTS, POWERS_OF_TWO, compiler_fails, misfit};
use crate::row::{GROUP, K, KPACK, M, N, NONKDIM, Row, SPLIT_K, USE_TMA, WAVES};
use crate::space::launched;
use crate::version::Version;

/// What is the same for all rows of a file.
pub(super) struct FileFacts<'a> {
    file: &'a Found,
    dtype: Option<Precision>,
    block_shape: Option<[i64; 2]>,
    /// What is not Triton has keys of its own.
    is_triton: bool,
    gpu: Option<Gpu>,
    triton: Option<Version>,
}

impl<'a> FileFacts<'a> {
    pub(super) fn of(file: &'a Found, strictness: &Strictness) -> Self {
        let name = file.name.as_ref().ok();
        let version = file.document.as_ref().ok().and_then(|document| {
            let said = document.fields.iter().find(|(key, _)| key == crate::file::VERSION_KEY)?;
            crate::file::version_of(&said.1).ok()
        });
        Self {
            file,
            dtype: name.and_then(|name| name.dtype),
            block_shape: name.and_then(|name| name.block_shape).map(|shape| shape.map(i64::from)),
            is_triton: name.is_none_or(|name| name.backend.is_none()),
            gpu: gpu_of(name, strictness),
            triton: file.folder.clone().or(version),
        }
    }
}

/// The keys of FlyDSL's rows, all of which its launcher reads.
const FLYDSL: [&str; 5] = ["tile_m", "tile_n", "tile_k", "tile_n2", "tile_k2"];

pub(super) fn check(place: &FileFacts<'_>, key: &str, value: &Json, findings: &mut Findings<'_>) {
    let Some(row) = row_of(value) else {
        findings.add(Rule::Row, key, format!("found {value}, expected an object of block sizes"));
        return;
    };
    let is_grouped = place.file.engine.info().splits_groups && place.dtype.is_some_and(Precision::has_groups);
    let needed: &[&str] = match place.is_triton {
        // The launcher chooses both where one is missing.
        true if is_grouped && !(row.0.contains_key(N) && row.0.contains_key(K)) => &[M, GROUP],
        true => &[M, N, K, GROUP],
        false => &FLYDSL,
    };
    if place.is_triton && is_grouped && place.dtype == Some(Precision::Int4W4A16) && !row.0.contains_key(SPLIT_K) {
        findings.add(
            Rule::Row,
            key,
            format!("found no {SPLIT_K}, expected 1: the kernel for 4 bits has to be given it"),
        );
    }
    for name in needed.iter().filter(|name| !row.0.contains_key(**name)) {
        findings.add(Rule::Row, key, format!("found no {name}, expected it in every row"));
    }
    let before = findings.found.len();
    for (name, value) in &row.0 {
        check_value(place, key, name, value, findings);
    }
    // What a row that is no config comes to is not worth a word.
    if findings.found.len() == before && place.is_triton {
        check_blocks(place, key, &row, findings);
        check_fit(place, key, &row, findings);
    }
}

fn check_value(place: &FileFacts<'_>, key: &str, name: &str, value: &Json, findings: &mut Findings<'_>) {
    let engine = place.file.engine;
    if !engine.knows_key(name) {
        let message = format!("found {name:?}, expected {}", engine.info().order.join(", "));
        findings.add(Rule::UnknownKey, key, message);
        return;
    }
    let is_amds = [WAVES, NONKDIM, KPACK].contains(&name);
    if is_amds && place.is_triton && place.gpu.is_some_and(|gpu| gpu.vendor == Vendor::Nvidia) {
        let message = format!("found {name:?}, expected it for AMD's GPUs alone: Triton does not know it for others");
        findings.add(Rule::UnknownKey, key, message);
        return;
    }
    let wrong = |expected: &str| format!("{name}: found {value}, expected {expected}");
    let number = value.as_i64();
    if name == USE_TMA {
        if !value.is_boolean() {
            findings.add(Rule::Value, key, wrong("true or false"));
        }
    } else if COUNTS.contains(&name) || [NONKDIM, KPACK, SPLIT_K].contains(&name) || FLYDSL.contains(&name) {
        let least = if name == NONKDIM { 0 } else { 1 };
        if number.is_none_or(|number| number < least) {
            findings.add(Rule::Value, key, wrong(&format!("a whole number from {least} on")));
        } else if POWERS_OF_TWO.contains(&name) && number.is_some_and(|number| number.count_ones() != 1) {
            findings.add(Rule::Value, key, wrong("a power of two"));
        }
    } else if name == WAVES && number.is_none_or(|number| number < 0) {
        findings.add(Rule::Value, key, wrong("a whole number from 0 on"));
    }
}

/// A tile of K against the blocks that have a scale each.
fn check_blocks(place: &FileFacts<'_>, key: &str, row: &Row, findings: &mut Findings<'_>) {
    let has_blocks = matches!(place.dtype, Some(Precision::Fp8W8A8 | Precision::Int8W8A8));
    let Some(([_, block], k)) = place.block_shape.filter(|_| has_blocks).zip(row.number(K)) else { return };
    if block <= 0 {
        return;
    }
    if !place.file.engine.info().lowers_block_k {
        if block % k != 0 {
            findings.add(Rule::Block, key, format!("{K}: found {k}, expected a divisor of the block of {block}"));
        }
    } else if k > block {
        findings.add(Rule::Lowered, key, format!("{K}: found {k}, which is launched as {block}"));
    } else if block % k != 0 {
        findings.add(Rule::Block, key, format!("{K}: found {k}, expected a divisor of the block of {block}"));
    }
}

fn check_fit(place: &FileFacts<'_>, key: &str, row: &Row, findings: &mut Findings<'_>) {
    let Some(gpu) = place.gpu else { return };
    let launched = launched(place.file.engine, row, place.block_shape);
    if let Some(reason) = misfit(&launched, place.dtype, gpu) {
        findings.add(Rule::Memory, key, format!("{}: found {reason}", row.short()));
    }
    let triton = findings.strictness.triton.as_ref().or(place.triton.as_ref());
    if triton.is_some_and(|triton| compiler_fails(&launched, place.dtype, gpu, triton)) {
        findings.add(Rule::Compiler, key, format!("{}: found a tile for which Triton's compiler fails", row.short()));
    }
}
