//! Queues of RabbitMQ that are there in name alone, and those that are merely slow.

use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::broker::{Broker, BrokerError, DEAD_QUEUE};
use bluefin_test_support::{Rabbit, eventually, patience};
use bytes::Bytes;
use tokio::time::timeout;

const OLDER: &str = "bluefin.compile.silent";
const QUEUE: &str = "bluefin.eval.silent";
const DELAY: &str = "bluefin.delay.5s.bluefin.eval.silent";
const DELAYED: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);

fn asked() -> [String; 3] {
    [OLDER, QUEUE, DEAD_QUEUE].map(str::to_owned)
}

/// Waits two seconds for an answer, where others wait for ten.
fn impatient(rabbit: &Rabbit) -> String {
    format!("{}?connection_timeout=2000", rabbit.url())
}

/// Kills the broker right after `last` was declared, and starts it again: that queue was there in name alone every time that this
/// was tried.
async fn declare_and_kill(rabbit: &mut Rabbit, last: &str) {
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    if last == DELAY {
        // Confirmed, and not called safe yet when the broker is killed.
        let publishing = broker.publish_after(DELAYED, QUEUE, "lost", Bytes::new());
        timeout(Duration::from_millis(300), publishing).await.unwrap_err();
    } else {
        broker.declare(last).await.unwrap();
    }
    rabbit.kill();
    rabbit.restart();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_killed_after_a_declaration_leaves_a_queue_that_can_be_made_anew() {
    let mut rabbit = Rabbit::start();
    AmqpBroker::connect(&rabbit.url()).await.unwrap().declare(OLDER).await.unwrap();
    for (last, delay) in [(QUEUE, Duration::ZERO), (DELAY, DELAYED)] {
        declare_and_kill(&mut rabbit, last).await;
        let broker = AmqpBroker::connect(&impatient(&rabbit)).await.unwrap();
        assert_eq!(broker.depth(QUEUE).await.unwrap(), 0, "it is there");
        // The others may still choose their leaders.
        eventually(SOON, "one that is silent", async || {
            broker.silent(&asked()).await.is_ok_and(|found| found == [last])
        })
        .await;
        // Deleting it takes five seconds.
        let patient = AmqpBroker::connect(&rabbit.url()).await.unwrap();
        patient.renew(last).await.unwrap();
        patient.close().await;
        assert!(broker.silent(&asked()).await.unwrap().is_empty());
        broker.publish_after(delay, QUEUE, "arrives", Bytes::new()).await.unwrap();
        let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
        let found = timeout(patience(SOON), consumer.next()).await.unwrap().unwrap();
        assert_eq!(found.message_id, "arrives");
        found.ack().await.unwrap();
        consumer.stop().await;
        broker.close().await;
    }
}

/// Has the process of a queue do nothing, or go on.
fn hold(rabbit: &Rabbit, what: &str, queue: &str) {
    rabbit.ctl(&["eval", &format!("sys:{what}(whereis('%2F_{queue}')).")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_that_does_nothing_at_all_has_no_silent_queue() {
    let rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&impatient(&rabbit)).await.unwrap();
    for queue in [OLDER, QUEUE] {
        broker.declare(queue).await.unwrap();
    }
    assert!(broker.silent(&asked()).await.unwrap().is_empty());
    hold(&rabbit, "suspend", QUEUE);
    assert_eq!(broker.silent(&asked()).await.unwrap(), [QUEUE], "alone among those that answer");
    for queue in [OLDER, DEAD_QUEUE] {
        hold(&rabbit, "suspend", queue);
    }
    let error = broker.silent(&asked()).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unavailable { .. }), "{error}");
    for queue in [OLDER, DEAD_QUEUE, QUEUE] {
        hold(&rabbit, "resume", queue);
    }
    assert!(broker.silent(&asked()).await.unwrap().is_empty(), "it was slow");
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_whose_queue_lost_its_process_has_it_made_anew() {
    let rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    broker.declare(QUEUE).await.unwrap();
    rabbit.ctl(&["eval", &format!("ra:stop_server(quorum_queues, {{'%2F_{QUEUE}', node()}}).")]);
    assert_eq!(broker.silent(&asked()).await.unwrap(), [QUEUE]);
    broker.renew(QUEUE).await.unwrap();
    broker.publish(QUEUE, "a", Bytes::new()).await.unwrap();
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 1);
    broker.close().await;
}
