//! A fleet whose servers have the users of `deploy/`, each with the rights that it has there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use bluefin_test_support::{Rabbit, Redis, RedisOptions};

use super::fleet::Fleet;
use super::{Running, bluefin, expect, text};

/// Everybody who has a user.
pub const ROLES: [&str; 6] = ["producer", "compile-worker", "eval-worker", "exporter", "monitor", "admin"];

/// Servers that know every role, and how each of them reaches these.
pub struct Roles {
    /// As the admin.
    pub fleet: Fleet,
    pub rabbit: Rabbit,
    _stores: [Redis; 2],
    environments: BTreeMap<&'static str, Vec<(String, String)>>,
}

impl Roles {
    pub fn start() -> Self {
        let (rabbit, store) = (Rabbit::start(), Redis::start(RedisOptions::DURABLE));
        let cache = Redis::start(RedisOptions::cache(64 << 20));
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let place = |url: &str| url.trim_end_matches('/').to_string();
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/make-credentials");
        let broker = format!("amqp://{}", rabbit.addr());
        expect(Command::new(deploy).arg(&made).args([&broker, &place(&store.url()), &place(&cache.url())]), 0);
        let path = made.join("definitions.json");
        rabbit.ctl(&["import_definitions", path.to_str().unwrap()]);
        let users = std::fs::read_to_string(made.join("users.acl")).unwrap();
        for server in [&store, &cache] {
            set_users(server, &users);
        }
        let environments: BTreeMap<_, Vec<_>> = ROLES.map(|role| (role, environment(&made, role))).into();
        let url = |name: &str| environments["admin"].iter().find(|(key, _)| key == name).unwrap().1.clone();
        let fleet = Fleet {
            amqp: url("BLUEFIN_AMQP_URL"),
            redis: url("BLUEFIN_REDIS_URL"),
            cache: url("BLUEFIN_CACHE_URL"),
            folder,
        };
        Self { fleet, rabbit, _stores: [store, cache], environments }
    }

    /// `bluefin` with what `role` has in its environment.
    pub fn bluefin(&self, role: &str, arguments: &[&str]) -> Command {
        let mut command = bluefin();
        command.current_dir(self.fleet.folder.path()).envs(self.environments[role].clone()).args(arguments);
        command
    }

    /// Starts what runs until it is dropped or signalled, as `role`; it logs into the fleet's folder.
    pub fn worker(&self, role: &str, arguments: &[&str]) -> Running {
        let mut command = self.bluefin(role, arguments);
        command.stdout(Stdio::null()).stderr(self.fleet.log());
        Running::start(&mut command)
    }

    /// What the store answers to `redis-cli` of `role`.
    pub fn redis(&self, role: &str, arguments: &[&str]) -> String {
        let url = &self.environments[role].iter().find(|(key, _)| key == "BLUEFIN_REDIS_URL").unwrap().1;
        let output = Command::new("redis-cli").args(["--no-auth-warning", "-u", url]).args(arguments).output().unwrap();
        text(&output.stdout).trim().to_string()
    }
}

/// The lines of `ROLE.env`.
fn environment(made: &Path, role: &str) -> Vec<(String, String)> {
    let file = std::fs::read_to_string(made.join(format!("{role}.env"))).unwrap();
    file.lines().map(|line| line.split_once('=').unwrap()).map(|(key, value)| (key.into(), value.into())).collect()
}

/// Gives a server the users of an `aclfile`. The one without a name, as which this is done, is off at last.
fn set_users(server: &Redis, acl: &str) {
    let mut lines: Vec<&str> = acl.lines().filter(|line| line.starts_with("user ")).collect();
    lines.sort_by_key(|line| line.starts_with("user default"));
    for line in lines {
        let words = line.split_whitespace().skip(1);
        let output = Command::new("redis-cli").args(["-u", &server.url(), "ACL", "SETUSER"]).args(words).output();
        assert_eq!(text(&output.unwrap().stdout).trim(), "OK", "{line}");
    }
}
