//! What a run says of failures at its end: how many, which of them nobody should overlook, and where their words are.

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::job::GroupId;
use bluefin_common::printable::printable;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_exporter::troubles::{Serious, Troubles, troubles};

/// Serious ones that are told.
const TOLD: usize = 4;

/// Says on standard error what failed in `groups`; nothing if nothing did. `place` is where `store` is.
pub async fn say(store: &dyn Store, session: &Session, groups: &[GroupId], place: &StoreArgs) -> anyhow::Result<()> {
    let troubles = troubles(store, session, groups).await?;
    lines(&troubles, &words_of(session, place)).iter().for_each(|line| eprintln!("{line}"));
    Ok(())
}

fn lines(Troubles { failed, serious, more }: &Troubles, words: &str) -> Vec<String> {
    if failed.is_empty() {
        return Vec::new();
    }
    let kinds: Vec<String> = failed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut lines = vec![format!("failed: {}", kinds.join(", "))];
    for Serious { problem, solver, kind, is_default, words } in serious.iter().take(TOLD) {
        let which = if *is_default { "with its default params" } else { "with some params" };
        let line = format!("  {}: {solver} {which} on {problem}: {words}", kind.name());
        lines.push(printable(&line).into_owned());
    }
    let left = serious.len().saturating_sub(TOLD) as u64 + more;
    if left > 0 {
        lines.push(format!("  {left} more wrong results or failed defaults"));
    }
    lines.push(format!("in their own words: {words}"));
    lines
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
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;

    use super::*;

    #[test]
    fn few_lines_say_it() {
        let serious = |index: usize| Serious {
            problem: format!("p{index}"),
            solver: "A".to_string(),
            kind: FailureKind::WrongResult,
            is_default: index == 0,
            words: "y[3]: found 1\u{1b}".to_string(),
        };
        let troubles =
            Troubles { failed: [("wrong_result", 9)].into(), serious: (0..6).map(serious).collect(), more: 2 };
        let lines = lines(&troubles, "bluefin results");
        assert_eq!(lines.len(), 1 + TOLD + 2);
        assert_eq!(lines[0], "failed: 9 wrong_result");
        assert_eq!(lines[1], "  wrong_result: A with its default params on p0: y[3]: found 1\\u{1b}");
        assert_eq!(lines[5], "  4 more wrong results or failed defaults");
        assert_eq!(super::lines(&Troubles::default(), ""), [""; 0]);
    }

    #[test]
    fn names_with_blanks_are_one_word() {
        assert_eq!(quoted("/tmp/a.db"), "/tmp/a.db");
        assert_eq!(quoted("it's a.db"), r"'it'\''s a.db'");
    }
}
