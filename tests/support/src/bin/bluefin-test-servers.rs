//! Starts a RabbitMQ and two Redis servers in a folder, prints where they are, and keeps them until it is killed:
//! `bluefin-test-servers FOLDER`. `tests/servers` is the way to use it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use bluefin_test_support::{Rabbit, RabbitOptions, Redis, RedisOptions};

const CACHE_BYTES: u64 = 1 << 30;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), None) = (args.next(), args.next()) else {
        eprintln!("usage: bluefin-test-servers FOLDER");
        return ExitCode::from(2);
    };
    tempfile::env::override_temp_dir(&folder).expect("nothing has overridden it before");

    let redis = Redis::start(RedisOptions::DURABLE);
    let cache = Redis::start(RedisOptions::cache(CACHE_BYTES));
    let rabbit = Rabbit::start_with(&RabbitOptions { all_cores: true, ..RabbitOptions::default() });

    println!("BLUEFIN_AMQP_URL={}", rabbit.url());
    println!("BLUEFIN_REDIS_URL={}", redis.url());
    println!("BLUEFIN_CACHE_URL={}", cache.url());
    println!("BLUEFIN_TEST_RABBIT_DIR={}", rabbit.folder().display());
    println!("READY");
    loop {
        thread::park();
    }
}
