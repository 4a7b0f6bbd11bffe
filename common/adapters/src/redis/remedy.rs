//! What an error of Redis asks for, and what it says.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Another connection, and the same again.
    Reconnect,
    /// The same again, later.
    Wait,
    /// Nothing now, but the call may succeed later.
    GiveUp,
    /// Somebody who allows what was asked for.
    Allow,
    /// Somebody who mends user or password; and another connection, for which that counts.
    Login,
    /// Another URL.
    Readdress,
}

pub(super) fn remedy(error: &RedisError) -> Remedy {
    match error.kind() {
        // After bytes that are no reply, the next reply can not be found in the stream.
        ErrorKind::Io | ErrorKind::Parse => Remedy::Reconnect,
        ErrorKind::AuthenticationFailed => Remedy::Login,
        ErrorKind::InvalidClientConfig | ErrorKind::Client => Remedy::Readdress,
        // The one error of SELECT that is the URL's.
        ErrorKind::Server(ServerErrorKind::ResponseError)
            if error.detail().is_some_and(|detail| detail.contains("DB index is out of range")) =>
        {
            Remedy::Readdress
        }
        _ => codes(error).iter().find_map(|code| of_code(code)).unwrap_or(Remedy::Allow),
    }
}

fn of_code(code: &str) -> Option<Remedy> {
    Some(match code {
        // A primary that was demoted: its name may already lead to the next one. UNBLOCKED is what its WAIT says.
        "READONLY" | "UNBLOCKED" => Remedy::Reconnect,
        "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" => Remedy::Wait,
        // `maxmemory` is reached; the disk is full or fails; as they say.
        "OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" => Remedy::GiveUp,
        "NOAUTH" | "WRONGPASS" => Remedy::Login,
        _ => return None,
    })
}

/// The codes of all errors that the server replied with. Before Redis 7 the one of an error inside a script is in the text.
pub(super) fn codes(error: &RedisError) -> Vec<String> {
    let Some(errors) = error.clone().into_server_errors() else { return Vec::new() };
    let mut codes = Vec::new();
    for (_, error) in errors.iter() {
        codes.push(error.code().to_string());
        let words = error.details().unwrap_or_default().split_whitespace();
        codes.extend(words.filter_map(|word| word.strip_prefix('-')).map(str::to_string));
    }
    codes
}

/// What Redis said, as it says it, and what is needed where it does not.
pub(super) fn said(error: &RedisError) -> String {
    if error.kind() == ErrorKind::AuthenticationFailed {
        return "user or password of the URL is wrong, or the user is off".to_string();
    }
    let Some(errors) = error.clone().into_server_errors() else { return error.to_string() };
    let texts = errors.iter().map(|(_, error)| match (error.code(), error.details()) {
        ("NOAUTH", _) => "NOAUTH: the URL needs a user or a password".to_string(),
        (code, details) => format!("{code} {}", details.unwrap_or_default()),
    });
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn of(reply: &str) -> RedisError {
        match parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_code_counts_wherever_it_stands() {
        for (reply, expected) in [
            ("READONLY You can't write against a read only replica.", Remedy::Reconnect),
            (
                "ERR Error running script (call to f_6b1): @user_script:12: -READONLY You can't write against a read only \
                 replica.",
                Remedy::Reconnect,
            ),
            ("UNBLOCKED force unblock from blocking operation, instance state changed", Remedy::Reconnect),
            ("ERR Error running script: @user_script: 7: -OOM command not allowed when used memory", Remedy::GiveUp),
            ("NOREPLICAS Not enough good replicas to write.", Remedy::GiveUp),
            ("LOADING Redis is loading the dataset in memory", Remedy::Wait),
            ("NOAUTH Authentication required.", Remedy::Login),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Remedy::Allow),
            ("ERR The user executing the script can't run this command or subcommand script: f_6b1", Remedy::Allow),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Remedy::Allow),
            ("ERR unknown command 'HSETNX', with args beginning with: 'a' ", Remedy::Allow),
        ] {
            assert_eq!(remedy(&of(reply)), expected, "{reply}");
        }
    }

    #[test]
    fn what_is_refused_is_said_as_redis_says_it() {
        let reply = "NOPERM this user has no permissions to run the 'evalsha' command";
        assert_eq!(said(&of(reply)), reply);
    }
}
