//! A release for people and for programs.

use bluefin_exporter::release::{Base, Created, Manifest, Move};
use bluefin_terminal::out;
use serde_json::{Value, json};

/// A manifest for programs: digests and the target as texts.
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

pub fn of_step(step: &Move) -> Value {
    json!({
        "channel": step.channel, "target": step.target.to_string(), "step": step.step, "release": step.release,
        "reason": step.reason, "moved_ms": step.moved_ms,
    })
}

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

pub fn print_files(manifest: &Manifest) -> std::io::Result<()> {
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

pub fn base(manifest: &Manifest) -> String {
    match &manifest.base {
        None => String::new(),
        Some(Base::Release { name, .. }) => name.to_string(),
        Some(Base::Files(files)) => files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("\n"),
    }
}

pub fn time(ms: u64) -> String {
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    humantime::format_rfc3339_seconds(time).to_string()
}
