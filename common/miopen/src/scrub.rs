//! What a tool prints may hold secrets of the machine that it ran on: fin prints its whole environment into its answer,
//! and a crash may print it anywhere. Nothing of the kind may reach a log or an outcome.

use bluefin_common::secrets;

/// `text` without lines that look like variables of an environment, and without passwords in addresses.
#[must_use]
pub fn scrub(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut dropped = 0_usize;
    for line in text.lines() {
        if is_variable(line) || line.contains("process_env") {
            dropped += 1;
            continue;
        }
        kept.push_str(&secrets::scrub(line));
        kept.push('\n');
    }
    if dropped > 0 {
        kept.push_str(&format!("[{dropped} lines that look like an environment left out]\n"));
    }
    kept
}

/// `NAME=value`, perhaps in quotes or behind `export` and the like, as environments are printed.
fn is_variable(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '"', '\'', '[', '{', ',', '+']);
    let line =
        ["export ", "declare -x ", "setenv "].into_iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    line.split_once('=').is_some_and(|(name, _)| {
        name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_left_out() {
        let text = "MIOpen(HIP): Error [Compile] size=3\nPASSWORD=hunter2\n  \"API_TOKEN=abc\",\nexport X=1\n{\"process_env\": [\n\
                    terminate called: what():  Invalid Arch Name\nlost amqp://me:hunter2@host:5672/x and redis://host\n";
        let scrubbed = scrub(text);
        assert!(!scrubbed.contains("hunter2") && !scrubbed.contains("abc"), "{scrubbed}");
        assert!(scrubbed.contains("size=3") && scrubbed.contains("Invalid Arch Name"));
        assert!(scrubbed.contains("amqp://me:***@host:5672/x and redis://host"), "{scrubbed}");
        assert!(scrubbed.contains("[4 lines"), "{scrubbed}");
    }
}
