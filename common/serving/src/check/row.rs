//! Checks of one row: keys, values, and whether the kernel can be launched by it.

use bluefin_common::arch::{MatrixUnit, Vendor};
use serde_json::Value as Json;

use super::{Findings, Rule, Strictness, gpu_of, row_of};
use crate::default::Gpu;
use crate::device::architecture_of;
use crate::engine::{Engine, OF_PRODUCTS, Precision};
use crate::files::Found;
use crate::fit::{COUNTS, MOST_THREADS, POWERS_OF_TWO, compiler_fails, least_k, misfit, wave};
use crate::name::Layer;
use crate::row::{GROUP, K, KPACK, M, MAXNREG, N, NONKDIM, Row, SPLIT_K, STAGES, SWAP_AB, USE_TMA, WARPS, WAVES};
use crate::space::launched;
use crate::version::Version;

/// What is the same for all rows of a file.
pub(super) struct FileFacts<'a> {
    file: &'a Found,
    dtype: Option<Precision>,
    block_shape: Option<[i64; 2]>,
    /// What is not Triton has keys of its own.
    is_triton: bool,
    /// Of a file for products what one sums over.
    sum: Option<i64>,
    /// Whether it is for products whose weights have a scale for each channel.
    is_channelwise: bool,
    gpu: Option<Gpu>,
    /// Whether the GPU has the matrix instructions of Hopper, where it is known.
    has_wgmma: Option<bool>,
    triton: Option<Version>,
}

impl<'a> FileFacts<'a> {
    pub(super) fn of(file: &'a Found, strictness: &Strictness) -> Self {
        let name = file.name.as_ref().ok();
        let version = file.document.as_ref().ok().and_then(|document| {
            let said = document.fields.iter().find(|(key, _)| key == crate::file::VERSION_KEY)?;
            crate::file::version_of(&said.1).ok()
        });
        let sum = name.and_then(|name| if let Layer::Gemm { k, .. } = name.layer { Some(i64::from(k)) } else { None });
        let architecture = name.and_then(|name| architecture_of(&name.device));
        let has_wgmma =
            |matrix: &[bluefin_common::arch::Matrix]| matrix.iter().any(|one| one.unit == MatrixUnit::Wgmma);
        Self {
            file,
            dtype: name.and_then(|name| name.dtype),
            block_shape: name.and_then(|name| name.block_shape).map(|shape| shape.map(i64::from)),
            is_triton: name.is_none_or(|name| name.backend.is_none()),
            sum,
            is_channelwise: sum.is_some() && name.is_some_and(|name| name.per_channel),
            gpu: gpu_of(name, strictness),
            has_wgmma: architecture.map(|architecture| has_wgmma(architecture.matrix)),
            triton: file.folder.clone().or(version),
        }
    }

    /// SGLang's kernel for products of FP8 in blocks counts the steps of a block, and has a variant for Hopper.
    fn counts_steps(&self) -> bool {
        self.sum.is_some() && self.file.engine == Engine::SGLANG && self.dtype == Some(Precision::Fp8W8A8)
    }

    fn knows_key(&self, key: &str) -> bool {
        let engine = self.file.engine;
        match self.sum {
            None => engine.knows_key(key),
            Some(_) if [SWAP_AB, SPLIT_K].contains(&key) => engine.knows_product_key(key) && self.counts_steps(),
            Some(_) => engine.knows_product_key(key),
        }
    }

    /// What is launched by a row.
    fn launched(&self, row: &Row) -> Row {
        match self.sum {
            None => launched(self.file.engine, row, self.block_shape),
            Some(_) => match self.raised(row) {
                Some(block) => {
                    let mut row = row.clone();
                    row.set(K, block);
                    row
                }
                None => row.clone(),
            },
        }
    }

    /// The block to which SGLang's loader raises a smaller BLOCK_SIZE_K: on AMD's GPUs always, else where it does not divide the block.
    fn raised(&self, row: &Row) -> Option<i64> {
        let ([_, block], k) = self.block_shape.filter(|_| self.counts_steps()).zip(row.number(K))?;
        let is_amd = self.gpu.is_some_and(|gpu| gpu.vendor == Vendor::Amd);
        (k > 0 && k < block && (is_amd || block % k != 0)).then_some(block)
    }
}

/// The keys of FlyDSL's rows, all of which its launcher reads.
const FLYDSL: [&str; 5] = ["tile_m", "tile_n", "tile_k", "tile_n2", "tile_k2"];

pub(super) fn check(place: &FileFacts<'_>, key: &str, value: &Json, findings: &mut Findings<'_>) {
    // Where nothing is said, SGLang takes another kernel for these rows.
    if place.is_channelwise && value.is_null() {
        return;
    }
    let Some(row) = row_of(value) else {
        findings.add(Rule::Row, key, format!("found {value}, expected an object of block sizes"));
        return;
    };
    let is_grouped = place.file.engine.info().splits_groups && place.dtype.is_some_and(Precision::has_groups);
    let needed: &[&str] = match place.is_triton {
        _ if place.is_channelwise => &[M, N, K, WARPS, STAGES],
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
        check_variant(place, key, &row, findings);
        check_blocks(place, key, &row, findings);
        check_fit(place, key, &row, findings);
    }
}

/// The variant for Hopper alone takes these keys, and it is launched where they ask for it.
fn check_variant(place: &FileFacts<'_>, key: &str, row: &Row, findings: &mut Findings<'_>) {
    let Some(name) = [SWAP_AB, SPLIT_K].into_iter().find(|name| place.sum.is_some() && row.0.contains_key(*name))
    else {
        return;
    };
    let asks = row.0.get(SWAP_AB) == Some(&Json::Bool(true)) || row.number(SPLIT_K).is_some_and(|parts| parts > 1);
    let expected = match place.has_wgmma {
        Some(false) => "it for GPUs with Hopper's matrix instructions alone",
        _ if !asks => "SWAP_AB true or SPLIT_K above 1 with it: the kernel that is launched else does not take it",
        _ => return,
    };
    findings.add(Rule::UnknownKey, key, format!("found {name:?}, expected {expected}"));
}

fn check_value(place: &FileFacts<'_>, key: &str, name: &str, value: &Json, findings: &mut Findings<'_>) {
    let engine = place.file.engine;
    if !place.knows_key(name) {
        let known: &[&str] = if place.sum.is_some() { &OF_PRODUCTS } else { engine.info().order };
        let message = format!("found {name:?}, expected {}", known.join(", "));
        findings.add(Rule::UnknownKey, key, message);
        return;
    }
    let is_amds = [WAVES, NONKDIM, KPACK].contains(&name);
    if is_amds && place.is_triton && place.gpu.is_some_and(|gpu| gpu.vendor == Vendor::Nvidia) {
        let message = format!("found {name:?}, expected it for AMD's GPUs alone: Triton does not know it for others");
        findings.add(Rule::UnknownKey, key, message);
        return;
    }
    if name == MAXNREG && place.gpu.is_some_and(|gpu| gpu.vendor == Vendor::Amd) {
        let message =
            format!("found {name:?}, expected it for NVIDIA's GPUs alone: Triton does not know it for others");
        findings.add(Rule::UnknownKey, key, message);
        return;
    }
    let wrong = |expected: &str| format!("{name}: found {value}, expected {expected}");
    let number = value.as_i64();
    if name == USE_TMA || name == SWAP_AB {
        if !value.is_boolean() {
            findings.add(Rule::Value, key, wrong("true or false"));
        }
    } else if COUNTS.contains(&name) || [NONKDIM, KPACK, SPLIT_K, MAXNREG].contains(&name) || FLYDSL.contains(&name) {
        let least = if name == NONKDIM { 0 } else { 1 };
        if number.is_none_or(|number| number < least) {
            findings.add(Rule::Value, key, wrong(&format!("a whole number from {least} on")));
        } else if (POWERS_OF_TWO.contains(&name) || name == SPLIT_K && place.sum.is_some())
            && number.is_some_and(|number| number.count_ones() != 1)
        {
            findings.add(Rule::Value, key, wrong("a power of two"));
        } else if let Some(most) = most_warps(place, name).filter(|most| number.is_some_and(|number| number > *most)) {
            findings.add(
                Rule::Value,
                key,
                wrong(&format!("at most {most}: a block has no more than {MOST_THREADS} threads")),
            );
        }
    } else if name == WAVES && number.is_none_or(|number| number < 0) {
        findings.add(Rule::Value, key, wrong("a whole number from 0 on"));
    }
}

/// Warps of as many threads as a block may have, if that is the key.
fn most_warps(place: &FileFacts<'_>, name: &str) -> Option<i64> {
    (name == WARPS && place.is_triton).then_some(MOST_THREADS / wave(place.gpu?))
}

/// A tile of K against the blocks that have a scale each.
fn check_blocks(place: &FileFacts<'_>, key: &str, row: &Row, findings: &mut Findings<'_>) {
    let has_blocks = matches!(place.dtype, Some(Precision::Fp8W8A8 | Precision::Int8W8A8));
    let Some(([_, block], k)) = place.block_shape.filter(|_| has_blocks).zip(row.number(K)) else { return };
    if block <= 0 {
        return;
    }
    // One step of a product whose sum is within one block has the scale of all its columns.
    let is_one_step = place.sum.is_some_and(|sum| sum <= block && sum <= k) && !place.counts_steps();
    let lowers = place.sum.is_none() && place.file.engine.info().lowers_block_k;
    if let Some(block) = place.raised(row) {
        findings.add(Rule::Lowered, key, format!("{K}: found {k}, which is launched as {block}"));
    } else if lowers && k > block {
        findings.add(Rule::Lowered, key, format!("{K}: found {k}, which is launched as {block}"));
    } else if block % k != 0 && !is_one_step {
        findings.add(Rule::Block, key, format!("{K}: found {k}, expected a divisor of the block of {block}"));
    }
}

fn check_fit(place: &FileFacts<'_>, key: &str, row: &Row, findings: &mut Findings<'_>) {
    let Some(gpu) = place.gpu else { return };
    let launched = place.launched(row);
    if let Some((least, k)) = least_k(place.dtype, gpu).zip(launched.number(K)).filter(|(least, k)| k < least) {
        let message =
            format!("{K}: found {k}, expected at least {least}: Triton compiles no smaller sums for this type");
        findings.add(Rule::Value, key, message);
    }
    if let Some(reason) = misfit(&launched, place.dtype, gpu) {
        findings.add(Rule::Memory, key, format!("{}: found {reason}", row.short()));
    }
    let triton = findings.strictness.triton.as_ref().or(place.triton.as_ref());
    if triton.is_some_and(|triton| compiler_fails(&launched, place.dtype, gpu, triton)) {
        findings.add(Rule::Compiler, key, format!("{}: found a tile for which Triton's compiler fails", row.short()));
    }
}
