//! `bluefin.toml`: what somebody would otherwise say on every command line. The order of precedence is decided here and where
//! broker and store are opened, and nowhere else: a flag, the environment, this file, the default.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

use crate::usage;

/// The state file where none is named.
pub const DEFAULT_STATE: &str = "bluefin.db";
/// The variable that names the file.
pub const VARIABLE: &str = "BLUEFIN_CONFIG";
/// The name of the file where no variable says another.
pub const NAME: &str = "bluefin.toml";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `--device` of `tune`.
    pub device: Option<String>,
    /// `--state`.
    pub state: Option<PathBuf>,
    /// Where the fleet meets.
    pub fleet: FleetConfig,
    /// Where the file is; not in it.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// Where the fleet meets: URLs without passwords, or `@FILE` that holds one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// `--amqp`.
    pub amqp: Option<String>,
    /// `--redis`.
    pub redis: Option<String>,
    /// `--cache`.
    pub cache: Option<String>,
}

impl Config {
    /// The URL that stands for the variable of that name.
    #[must_use]
    pub fn url(&self, variable: &str) -> Option<&str> {
        let FleetConfig { amqp, redis, cache } = &self.fleet;
        match variable {
            "BLUEFIN_AMQP_URL" => amqp.as_deref(),
            "BLUEFIN_REDIS_URL" => redis.as_deref(),
            "BLUEFIN_CACHE_URL" => cache.as_deref(),
            _ => None,
        }
    }

    /// What `text` says, whose paths are relative to the folder of `path`.
    fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let mut config: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if let Some(state) = &mut config.state {
            *state = folder.join(&*state);
        }
        let FleetConfig { amqp, redis, cache } = &mut config.fleet;
        for (key, url) in [("amqp", amqp), ("redis", redis), ("cache", cache)] {
            let Some(url) = url else { continue };
            if let Some(file) = url.strip_prefix('@') {
                *url = format!("@{}", folder.join(file).display());
            } else if has_password(url) {
                return Err(format!("fleet.{key}: found a URL with a password, expected @FILE that holds it"));
            }
        }
        config.path = Some(path.to_path_buf());
        Ok(config)
    }
}

/// Whether the URL holds a password: `scheme://user:password@host`.
pub(crate) fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Where the file may be, the first of which counts.
fn places() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        // Set to nothing, there is none.
        return if named.is_empty() { Vec::new() } else { vec![named.into()] };
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from).or(home);
    std::iter::once(PathBuf::from(NAME)).chain(own.map(|folder| folder.join("bluefin").join(NAME))).collect()
}

fn read() -> Result<Config, String> {
    let named = std::env::var_os(VARIABLE).is_some();
    for path in places() {
        let at = |error: String| format!("{}: {error}", path.display());
        match std::fs::read_to_string(&path) {
            Ok(text) => return Config::parse(&text, &path).map_err(at),
            Err(error) if error.kind() == ErrorKind::NotFound && !named => {}
            Err(error) => return Err(at(error.to_string())),
        }
    }
    Ok(Config::default())
}

/// The file of this process, read once. Where it can not be read it says nothing, and [`check`] says why.
pub fn get() -> &'static Config {
    static NOTHING: Config =
        Config { device: None, state: None, fleet: FleetConfig { amqp: None, redis: None, cache: None }, path: None };
    loaded().as_ref().unwrap_or(&NOTHING)
}

fn loaded() -> &'static Result<Config, String> {
    static LOADED: OnceLock<Result<Config, String>> = OnceLock::new();
    LOADED.get_or_init(read)
}

/// The state file of verbs that work in one.
#[must_use]
pub fn state() -> PathBuf {
    get().state.clone().unwrap_or_else(|| DEFAULT_STATE.into())
}

/// Whether the file could be read.
///
/// # Errors
/// Why it could not.
pub fn check() -> anyhow::Result<()> {
    match loaded() {
        Ok(_) => Ok(()),
        Err(reason) => Err(usage(reason.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/srv/tuning/bluefin.toml"))
    }

    #[test]
    fn paths_are_beside_the_file() {
        let config = parse(
            "device = \"h100\"\nstate = \"tune.db\"\n[fleet]\namqp = \"@amqp\"\nredis = \"redis://store\"\ncache = \"@/run/cache\"\n",
        )
        .unwrap();
        assert_eq!(config.device.as_deref(), Some("h100"));
        assert_eq!(config.state, Some("/srv/tuning/tune.db".into()));
        assert_eq!(config.url("BLUEFIN_AMQP_URL"), Some("@/srv/tuning/amqp"));
        assert_eq!(config.url("BLUEFIN_REDIS_URL"), Some("redis://store"));
        assert_eq!(config.url("BLUEFIN_CACHE_URL"), Some("@/run/cache"));
        assert_eq!(config.url("BLUEFIN_MESSAGE_KEYS"), None);
        let nothing = parse("").unwrap();
        assert_eq!(nothing, Config { path: Some("/srv/tuning/bluefin.toml".into()), ..Config::default() });
    }

    #[test]
    fn what_it_can_not_hold_is_an_error() {
        assert!(parse("devices = 1").unwrap_err().contains("unknown field `devices`"));
        let error = parse("[fleet]\nredis = \"redis://me:secret@store\"\n").unwrap_err();
        assert_eq!(error, "fleet.redis: found a URL with a password, expected @FILE that holds it");
    }
}
