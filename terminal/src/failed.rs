//! What a run says of failures at its end: how many, which of them nobody should overlook, and where their words are.

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::job::GroupId;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_exporter::troubles::troubles;

/// Says on standard error what failed in `groups`; nothing if nothing did. `place` is where `store` is.
pub async fn say(store: &dyn Store, session: &Session, groups: &[GroupId], place: &StoreArgs) -> anyhow::Result<()> {
    let troubles = troubles(store, session, groups).await?;
    troubles.lines(&words_of(session, place)).iter().for_each(|line| crate::say!("{line}"));
    Ok(())
}

/// The command that shows them.
fn words_of(session: &Session, place: &StoreArgs) -> String {
    let mut command = "bluefin results".to_string();
    if let Some(file) = place.file() {
        command.push_str(&format!(" --state {}", quoted(&file.display().to_string())));
    } else if let Some(url) = &place.fleet.redis {
        command.push_str(&format!(" --redis {}", quoted(url)));
    }
    format!("{command} --session {} --failed", session.name)
}

/// As a shell takes it for one word.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_are_one_word() {
        assert_eq!(quoted("/tmp/a.db"), "/tmp/a.db");
        assert_eq!(quoted("it's a.db"), r"'it'\''s a.db'");
    }
}
