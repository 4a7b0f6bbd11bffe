//! The servers that a fleet meets in, each behind a proxy, and everything that may befall them.

use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::broker::Broker as _;
use bluefin_test_support::{Proxy, Rabbit, Redis, RedisOptions};
use tokio::time::timeout;

/// How long the cache keeps an artifact.
pub const ARTIFACT_TTL: Duration = Duration::from_secs(600);
/// Of the cache. Small enough that a few sessions fill it.
const CACHE_BYTES: u64 = 64 << 20;
/// Less than a Redis needs for itself: nothing fits any more.
const TINY_BYTES: u64 = 1 << 20;
/// For a queue to be deleted and declared: less than it takes RabbitMQ to have that on disk.
const BARELY: Duration = Duration::from_millis(500);
const WRONG: &str = "somebody-changed-it";

/// RabbitMQ and its link.
pub struct Broker {
    pub rabbit: Rabbit,
    pub link: Proxy,
}

/// A Redis and its link.
pub struct Kept {
    pub redis: Redis,
    pub link: Proxy,
}

pub struct Servers {
    pub broker: Broker,
    pub store: Kept,
    pub cache: Kept,
}

/// Where the three are.
#[derive(Clone, Debug)]
pub struct Urls {
    pub amqp: String,
    pub redis: String,
    pub cache: String,
}

impl Servers {
    pub fn start() -> Self {
        let store = Kept::start(RedisOptions::DURABLE);
        let cache = Kept::start(RedisOptions::cache(CACHE_BYTES));
        let rabbit = Rabbit::start();
        let link = Proxy::start(rabbit.addr());
        Self { broker: Broker { rabbit, link }, store, cache }
    }

    /// As the fleet knows them.
    pub fn through_links(&self) -> Urls {
        let redis = |kept: &Kept| format!("redis://127.0.0.1:{}/", kept.link.port());
        let amqp = format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.broker.link.port());
        Urls { amqp, redis: redis(&self.store), cache: redis(&self.cache) }
    }

    /// For whoever looks at what is in them.
    pub fn direct(&self) -> Urls {
        Urls { amqp: self.broker.rabbit.url(), redis: self.store.redis.url(), cache: self.cache.redis.url() }
    }

    /// A virtual host of its own, with the two other stores, for another fleet.
    pub fn reference(&self, store: &Redis, cache: &Redis) -> Urls {
        let rabbit = &self.broker.rabbit;
        rabbit.ctl(&["add_vhost", "reference"]);
        rabbit.ctl(&["set_permissions", "--vhost", "reference", "guest", ".*", ".*", ".*"]);
        let amqp = format!("amqp://guest:guest@{}/reference", rabbit.addr());
        Urls { amqp, redis: store.url(), cache: cache.url() }
    }
}

impl Broker {
    pub fn close_connections(&self) {
        self.rabbit.ctl(&["close_all_connections", "chaos"]);
    }

    /// Deletes a queue and declares it again; returns before that is on disk.
    pub async fn renew(&self, queue: &str) {
        let Ok(broker) = AmqpBroker::connect(&self.rabbit.url()).await else { return };
        // The rest of it is waiting until the queue can be trusted.
        let _ = timeout(BARELY, broker.renew(queue)).await;
    }

    /// Starts RabbitMQ after it was killed, and once more if it comes back with its queues down, as somebody has to: see
    /// docs/operating.md, RabbitMQ with all queues down. Whether that was so.
    pub fn restart(&mut self) -> bool {
        self.rabbit.restart();
        let shared = self.rabbit.ctl(&["eval", "whereis(rabbit_fifo_dlx_sup)."]);
        let is_down = shared.trim() == "undefined";
        if is_down {
            self.rabbit.restart();
        }
        is_down
    }

    pub fn forbid(&self) {
        self.rabbit.ctl(&["clear_permissions", "guest"]);
    }

    pub fn permit(&self) {
        self.rabbit.ctl(&["set_permissions", "guest", ".*", ".*", ".*"]);
    }
}

impl Kept {
    pub fn start(options: RedisOptions) -> Self {
        let redis = Redis::start(options);
        let link = Proxy::start(redis.addr());
        Self { redis, link }
    }

    pub fn close_connections(&self) {
        self.cli("", &["CLIENT", "KILL", "TYPE", "normal"]);
    }

    pub fn flush(&self) {
        self.cli("", &["FLUSHALL"]);
    }

    pub fn shrink(&self) {
        self.cli("", &["CONFIG", "SET", "maxmemory", &TINY_BYTES.to_string()]);
    }

    pub fn grow(&self) {
        self.cli("", &["CONFIG", "SET", "maxmemory", &CACHE_BYTES.to_string()]);
    }

    /// Follows a master that is not there.
    pub fn make_read_only(&self) {
        self.cli("", &["REPLICAOF", "127.0.0.1", "1"]);
    }

    pub fn make_writable(&self) {
        self.cli("", &["REPLICAOF", "NO", "ONE"]);
    }

    /// Wants a password that nobody knows, also of those who are connected.
    pub fn lock(&self) {
        self.cli("", &["CONFIG", "SET", "requirepass", WRONG]);
        self.cli(WRONG, &["CLIENT", "KILL", "TYPE", "normal"]);
    }

    pub fn unlock(&self) {
        self.cli(WRONG, &["CONFIG", "SET", "requirepass", ""]);
    }

    fn cli(&self, password: &str, arguments: &[&str]) {
        let mut command = Command::new("redis-cli");
        if !password.is_empty() {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command
            .args(["-u", &self.redis.url()])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("cannot run redis-cli: {error}"));
        let said = String::from_utf8_lossy(&output.stdout);
        // An error that Redis answers is no error of its client.
        let refused = ["ERR", "NOAUTH", "WRONGPASS", "NOPERM", "READONLY", "OOM"];
        assert!(
            output.status.success() && !refused.iter().any(|word| said.starts_with(word)),
            "redis-cli {arguments:?}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
