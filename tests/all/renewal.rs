//! RabbitMQ is killed just after a queue was declared and comes back with it in name alone: the monitor makes it anew, and the
//! session that goes through it completes.

use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::broker::Broker as _;
use bluefin_test_support::{Rabbit, Redis, RedisOptions, free_port, wait_until};
use rustix::process::Signal;

use crate::common::fleet::{Fleet, many_problems, noop_spec};
use crate::common::{expect, files, http_get, write};

/// Ten seconds for each request without an answer, and all that happens in between on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

#[test]
fn rabbit_killed_while_a_queue_is_new_loses_nothing() {
    let mut rabbit = Rabbit::start();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(rabbit.url(), redis.url(), redis.url());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
        broker.declare("bluefin.eval.gfx000-1").await.unwrap();
    });
    rabbit.kill();
    rabbit.restart();

    write(fleet.folder.path(), "problems.txt", &many_problems(2));
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let workers = [
        fleet.worker(&["compile-worker", "--toolchain", "noop"]),
        fleet.worker(&["eval-worker", "--device", "noop:gfx000-1"]),
        fleet.worker(&["monitor", "--admin-addr", &address, "--every", "200ms", "--renew-after", "2s"]),
    ];
    let spec = noop_spec();
    let enqueue = ["enqueue", "problems.txt", "--session", "s", "--target", "gfx000-1", "--budget", "all", "--kernel"];
    expect(fleet.bluefin(&enqueue).arg(spec), 0);
    fleet.wait_complete("s", PATIENCE);
    // It takes a while until the monitor trusts what it made.
    let counted = || http_get(port, "/metrics").contains("bluefin_queues_renewed_total 1\n");
    wait_until(PATIENCE, "that it was the monitor who mended it", counted);
    for worker in workers {
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait(PATIENCE), Some(0), "{}", fleet.logged());
    }
    assert!(!files(&fleet.export("s", "out")).is_empty());
}
