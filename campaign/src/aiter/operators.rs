//! What operators take with the rows that were in force and with new ones, and which rows that speaks against.

use std::collections::HashMap;

use anyhow::Context as _;
use bluefin_aiter::merge::{Fate, Merged};
use bluefin_aiter::operator::Comparison;
use bluefin_aiter::{FamilyName, Key, Sheet, sheets_of};
use bluefin_common::digest::Digest;
use bluefin_common::job::group_id;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::shelf;
use bluefin_common::store::Records;
use serde::Serialize;

/// An operator with a shape.
#[derive(Serialize)]
pub struct Measured {
    /// By its name in aiter's CI.
    pub family: &'static str,
    /// Of the GPU's file, without the GPU.
    pub shape: Key,
    /// What it takes with the rows that were there, and with new ones.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// What was measured of `problems`, in their order.
pub async fn measured(store: &dyn Records, session: &Session, problems: &[Problem]) -> anyhow::Result<Vec<Measured>> {
    let shelf = shelf::operators(&session.name);
    let records: HashMap<String, Vec<u8>> = store.records(&shelf).await?.into_iter().collect();
    let mut measured = Vec::new();
    for problem in problems {
        let Problem::Aiter(shape) = problem else { continue };
        let group = group_id(problem, Digest::of(b"")).to_string();
        let Some(record) = records.get(&group) else { continue };
        let comparison = serde_json::from_slice(record).with_context(|| format!("{shelf} {group}"))?;
        let FamilyName(family) = shape.family.parse()?;
        measured.push(Measured { family: family.name, shape: family.key_of(shape), comparison });
    }
    Ok(measured)
}

/// Takes out of `rows` those that operators do not gain enough by, so that those `standing` stay. Returns what became of them.
pub fn refuse(rows: &mut [Sheet], standing: &[Sheet], measured: &[Measured], percent: f64) -> Vec<Merged> {
    let known: HashMap<(&str, &Key), &Comparison> =
        measured.iter().map(|one| ((one.family, &one.shape), &one.comparison)).collect();
    let mut refused = Vec::new();
    for sheet in rows {
        let times: HashMap<Key, Option<f64>> =
            sheets_of(standing, sheet.family).flat_map(Sheet::views).map(|view| (view.key(), view.us())).collect();
        let mut taken = std::mem::take(&mut sheet.table.rows);
        taken.retain(|row| {
            let view = sheet.view(row);
            let shape = view.told().without(sheet.family.gpu);
            let gain = known.get(&(sheet.family.name, &shape)).map(|comparison| comparison.is_better_by(percent));
            let reason = match gain {
                Some(Ok(())) => return true,
                Some(Err(reason)) => reason,
                None => "the operator was not measured with it".to_string(),
            };
            let (key, file, line, after) = (view.key(), view.path(), row.line, view.us());
            let before = times.get(&key).copied().flatten();
            refused.push(Merged { key, file, line, fate: Fate::Kept, before, after, reason: Some(reason) });
            false
        });
        sheet.table.rows = taken;
    }
    refused
}
