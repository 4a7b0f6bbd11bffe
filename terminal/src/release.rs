//! A release for people and for programs.

use bluefin_exporter::release::{Base, Created, Manifest, Move};
use serde_json::{Value, json};

use crate::sheet::{Sheet, cell, text};
use crate::{moment, out};

/// A manifest for programs: digests and the target as texts.
#[must_use]
pub fn of_manifest(manifest: &Manifest) -> Value {
    let base = match &manifest.base {
        None => Value::Null,
        Some(Base::Release { name, digest }) => json!({ "release": name, "digest": digest.to_string() }),
        Some(Base::Files(files)) => {
            let files = files.iter().map(|(name, digest)| json!({ "name": name, "digest": digest.to_string() }));
            json!({ "files": files.collect::<Vec<_>>() })
        }
    };
    let files = manifest.files.iter().map(|file| {
        json!({ "name": file.name, "bytes": file.size, "records": file.records, "digest": file.digest.to_string() })
    });
    json!({
        "name": manifest.name, "digest": manifest.digest().to_string(), "target": manifest.target.to_string(),
        "policy": manifest.policy, "base": base, "sessions": manifest.sessions, "note": manifest.note,
        "created_ms": manifest.created_ms, "files": files.collect::<Vec<_>>(),
    })
}

/// A step of a channel for programs.
#[must_use]
pub fn of_step(step: &Move) -> Value {
    json!({
        "channel": step.channel, "target": step.target.to_string(), "step": step.step, "release": step.release,
        "reason": step.reason, "moved_ms": step.moved_ms,
    })
}

/// Says what was made, and of what.
///
/// # Errors
/// If standard output can not be written to.
pub fn print_created(created: &Created) -> std::io::Result<()> {
    let manifest = &created.manifest;
    let made = if created.new { "made" } else { "was made before:" };
    out::line(format_args!("{made} release {} for {}: {}", manifest.name, manifest.target, created.digest))?;
    for (session, merged) in manifest.sessions.iter().zip(&created.merged) {
        out::line(format_args!(
            "  session {session}: {} keys new, {} changed, {} kept from the base; {} kernels",
            merged.new_keys, merged.changed_keys, merged.kept_keys, merged.kernels
        ))?;
    }
    print_files(manifest)?;
    if let Some(step) = &created.moved {
        out::line(format_args!("channel {} points to {}, step {}", step.channel, step.release, step.step))?;
    }
    Ok(())
}

fn print_files(manifest: &Manifest) -> std::io::Result<()> {
    for file in &manifest.files {
        out::line(format_args!(
            "  {}: {} records, {} bytes, {}",
            file.name,
            file.records,
            file.size,
            file.digest.short()
        ))?;
    }
    Ok(())
}

fn base(manifest: &Manifest) -> String {
    match &manifest.base {
        None => String::new(),
        Some(Base::Release { name, .. }) => name.to_string(),
        Some(Base::Files(files)) => files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("\n"),
    }
}

/// A row for each release, with the channels that point to it.
#[must_use]
pub fn sheet(manifests: &[Manifest], pointing: impl Fn(&Manifest) -> Vec<String>) -> Sheet {
    let mut sheet = Sheet::new([
        text("release"),
        text("target"),
        text("made"),
        text("base").rank(4),
        text("sessions").rank(2),
        text("policy").rank(3),
        text("records").rank(1),
        text("channels"),
    ]);
    for manifest in manifests {
        let records = manifest.files.iter().map(|file| format!("{} {}", file.name, file.records));
        sheet.row([
            cell(&manifest.name),
            cell(&manifest.target),
            cell(moment::at(manifest.created_ms)),
            cell(base(manifest)),
            cell(manifest.sessions.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
            cell(manifest.policy),
            cell(records.collect::<Vec<_>>().join("\n")),
            cell(pointing(manifest).join("\n")),
        ]);
    }
    sheet
}

/// Says what a release is, and where the channel was that it was found by.
///
/// # Errors
/// If standard output can not be written to.
pub fn print(manifest: &Manifest, steps: &[Move]) -> anyhow::Result<()> {
    out::line(format_args!(
        "release  {}\ndigest   {}\ntarget   {}",
        manifest.name,
        manifest.digest(),
        manifest.target
    ))?;
    out::line(format_args!("made     {}\npolicy   {}", moment::at(manifest.created_ms), manifest.policy))?;
    match &manifest.base {
        None => {}
        Some(Base::Release { name, digest }) => out::line(format_args!("base     {name} ({})", digest.short()))?,
        Some(Base::Files(files)) => {
            for (name, digest) in files {
                out::line(format_args!("base     {name} ({})", digest.short()))?;
            }
        }
    }
    for session in &manifest.sessions {
        out::line(format_args!("session  {session}"))?;
    }
    if !manifest.note.is_empty() {
        out::line(format_args!("note     {}", manifest.note.escape_debug()))?;
    }
    print_files(manifest)?;
    for step in steps {
        let reason = serde_json::to_value(step.reason)?;
        let reason = reason.as_str().unwrap_or_default();
        out::line(format_args!("step {}: {} {} {reason}", step.step, moment::at(step.moved_ms), step.release))?;
    }
    Ok(())
}
