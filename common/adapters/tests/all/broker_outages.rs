//! The broker over RabbitMQ while connections break and the server dies: what was confirmed is consumed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::broker::{Broker, BrokerError, DEAD_QUEUE};
use bluefin_test_support::{Proxy, Rabbit, Vhost, eventually, patience};
use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

const QUEUE: &str = "bluefin.compile.outage";
const SOON: Duration = Duration::from_secs(60);
const SECONDS_25: Duration = Duration::from_secs(25);

/// Publishes until told to stop; publishers try again, as callers do. Returns what was confirmed.
struct Load {
    stop: Arc<AtomicBool>,
    publishing: Vec<JoinHandle<Vec<u32>>>,
    confirmed: mpsc::UnboundedReceiver<u32>,
}

const PUBLISHERS: u32 = 20;

impl Load {
    fn start(broker: &Arc<AmqpBroker>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (progress, confirmed) = mpsc::unbounded_channel();
        let publisher = |n: u32| {
            let (broker, stop, progress) = (Arc::clone(broker), Arc::clone(&stop), progress.clone());
            TaskTracker::new().spawn(async move {
                let mut done = Vec::new();
                let mut id = n;
                while !stop.load(Ordering::Relaxed) {
                    match broker.publish(QUEUE, &id.to_string(), Bytes::from(id.to_string())).await {
                        Ok(()) => {
                            done.push(id);
                            let _ = progress.send(id);
                            id += PUBLISHERS;
                        }
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                    sleep(Duration::from_millis(2)).await;
                }
                done
            })
        };
        let publishing = (0..PUBLISHERS).map(publisher).collect();
        Self { stop, publishing, confirmed }
    }

    /// Waits until `count` more messages have been confirmed.
    async fn progress(&mut self, count: usize) {
        for _ in 0..count {
            timeout(patience(SOON), self.confirmed.recv())
                .await
                .expect("messages are confirmed")
                .expect("publishers run");
        }
    }

    async fn finish(self) -> BTreeSet<u32> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeSet::new();
        for publisher in self.publishing {
            all.extend(publisher.await.unwrap());
        }
        all
    }
}

/// Consumes until told what to expect, and returns how often each message came.
fn consume(broker: &Arc<AmqpBroker>) -> (JoinHandle<BTreeMap<u32, u32>>, mpsc::UnboundedSender<BTreeSet<u32>>) {
    let (expect, mut expected) = mpsc::unbounded_channel::<BTreeSet<u32>>();
    let broker = Arc::clone(broker);
    let task = TaskTracker::new().spawn(async move {
        let mut consumer = broker.consume(QUEUE, 50).await.unwrap();
        let mut found = BTreeMap::new();
        let mut missing: Option<BTreeSet<u32>> = None;
        while missing.as_ref().is_none_or(|missing| !missing.is_empty()) {
            tokio::select! {
                all = expected.recv(), if missing.is_none() => {
                    missing = all.map(|all| all.into_iter().filter(|id| !found.contains_key(id)).collect());
                }
                delivery = consumer.next() => {
                    let delivery = delivery.expect("the stream ends only when the broker is closed");
                    let id: u32 = delivery.message_id.parse().unwrap();
                    assert_eq!(delivery.body, delivery.message_id.as_bytes());
                    *found.entry(id).or_default() += 1;
                    if let Some(missing) = &mut missing {
                        missing.remove(&id);
                    }
                    match delivery.ack().await {
                        Ok(()) | Err(BrokerError::Unavailable { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        found
    });
    (task, expect)
}

/// Load before, during and after `outage`; all that was confirmed must be consumed.
async fn nothing_is_lost_through(broker: AmqpBroker, outage: impl AsyncFnOnce(&mut Load)) -> BTreeMap<u32, u32> {
    let broker = Arc::new(broker);
    let (consuming, expect) = consume(&broker);
    let mut load = Load::start(&broker);
    load.progress(300).await;
    outage(&mut load).await;
    load.progress(300).await;
    let confirmed = load.finish().await;
    expect.send(confirmed).unwrap();
    let found = timeout(patience(SOON), consuming).await.expect("all that was confirmed arrives").unwrap();
    broker.close().await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_nothing() {
    let rabbit = Rabbit::start();
    let proxy = Proxy::start(rabbit.addr());
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port());
    let broker = AmqpBroker::connect(&url).await.unwrap();
    assert_eq!(broker.reconnects(), 0);
    nothing_is_lost_through(broker, async |load: &mut Load| {
        for _ in 0..3 {
            proxy.cut();
            sleep(Duration::from_millis(300)).await;
            proxy.resume();
            load.progress(100).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_and_restarted_server_loses_nothing() {
    let mut rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    nothing_is_lost_through(broker, async |_: &mut Load| {
        rabbit.kill();
        rabbit.restart();
    })
    .await;
}

/// Delays at a time: one in five was moved before its queue had a leader, on a machine with other work.
const DELAYED: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_that_end_while_the_server_is_down_are_not_late_by_minutes() {
    let mut rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    let queues: Vec<String> = (0..DELAYED).map(|n| format!("{QUEUE}.{n}")).collect();
    let publishing = queues.iter().map(|queue| broker.publish_after(SECONDS_25, queue, "later", Bytes::new()));
    try_join_all(publishing).await.unwrap();
    sleep(SECONDS_25 - Duration::from_secs(8)).await;
    rabbit.kill();
    sleep(Duration::from_secs(8)).await;
    rabbit.restart();
    // By default RabbitMQ tries again after 180 s.
    let arrived = async || {
        let depths = try_join_all(queues.iter().map(|queue| broker.depth(queue))).await;
        depths.is_ok_and(|depths| depths.iter().sum::<u64>() == DELAYED)
    };
    eventually(2 * SOON, "all that was delayed", arrived).await;
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_noticed() {
    let rabbit = Rabbit::start();
    // Silence of twice the heartbeat ends a connection.
    let broker = AmqpBroker::connect(&format!("{}?heartbeat=2", rabbit.url())).await.unwrap();
    nothing_is_lost_through(broker, async |_: &mut Load| {
        rabbit.stop();
        sleep(Duration::from_secs(8)).await;
        rabbit.cont();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_does_not_wait_for_ever() {
    let rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&format!("{}?heartbeat=1", rabbit.url())).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    rabbit.stop();
    // What is on a CPU when it is stopped may be confirmed yet.
    while broker.publish(QUEUE, "2", Bytes::new()).await.is_ok() {}
    let started = std::time::Instant::now();
    for _ in 0..2 {
        let result = broker.publish(QUEUE, "2", Bytes::new()).await;
        assert!(matches!(result, Err(BrokerError::Unavailable { .. })), "{result:?}");
    }
    assert!(started.elapsed() < patience(Duration::from_secs(30)), "{:?}", started.elapsed());
    let started = std::time::Instant::now();
    broker.close().await;
    assert!(started.elapsed() < patience(Duration::from_secs(15)), "{:?}", started.elapsed());
    rabbit.cont();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_of_a_lost_connection_cannot_be_settled() {
    let rabbit = Rabbit::start();
    let proxy = Proxy::start(rabbit.addr());
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port());
    let broker = AmqpBroker::connect(&url).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 2).await.unwrap();
    for id in ["a", "b"] {
        broker.publish(QUEUE, id, Bytes::new()).await.unwrap();
    }
    let (first, second) = (consumer.next().await.unwrap(), consumer.next().await.unwrap());
    proxy.cut();
    eventually(SOON, "the connections to be missed", async || broker.reconnects() >= 2).await;
    proxy.resume();
    let (again, other) = (consumer.next().await.unwrap(), consumer.next().await.unwrap());
    assert_eq!((again.redeliveries, other.redeliveries), (1, 1));
    for result in [first.ack().await, second.hand_back(Duration::from_secs(1)).await] {
        assert!(matches!(result, Err(BrokerError::Unavailable { .. })), "{result:?}");
    }
    // Neither settled nor copied: the second deliveries are whole.
    other.ack().await.unwrap();
    drop(again);
    let again = consumer.next().await.unwrap();
    assert_eq!(again.redeliveries, 2);
    again.ack().await.unwrap();
    assert!(timeout(Duration::from_secs(2), consumer.next()).await.is_err(), "nothing else comes");
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 0);
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_waits_for_the_server() {
    let mut rabbit = Rabbit::start();
    rabbit.kill();
    let url = rabbit.url();
    let connecting = TaskTracker::new().spawn(async move { AmqpBroker::connect(&url).await });
    sleep(Duration::from_millis(500)).await;
    assert!(!connecting.is_finished());
    rabbit.restart();
    let broker = timeout(patience(SOON), connecting).await.unwrap().unwrap().unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_named_and_passwords_are_not() {
    let vhost = Vhost::fresh();
    let wrong = vhost.url().replace("guest:guest", "guest:passw0rd");
    for (url, word) in [(wrong, "ACCESS_REFUSED"), (format!("{}-absent", vhost.url()), "not found")] {
        let error = timeout(patience(SOON), AmqpBroker::connect(&url)).await.unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(error, BrokerError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.to_string().contains("passw0rd"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_other_properties_is_named() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    broker.declare(QUEUE).await.unwrap();
    let parameters = lapin::options::QueueDeclareOptions { durable: true, ..Default::default() };
    let connection = lapin::Connection::connect(&vhost.url(), Default::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.queue_declare("bluefin.eval.classic".into(), parameters, Default::default()).await.unwrap();
    for result in [
        broker.declare("bluefin.eval.classic").await,
        broker.publish("bluefin.eval.classic", "1", Bytes::new()).await,
        broker.consume("bluefin.eval.classic", 1).await.map(|_| ()),
    ] {
        let Err(BrokerError::Refused { reason, .. }) = result else { panic!("{result:?}") };
        // What it is, and what it has to be.
        for word in ["bluefin.eval.classic", "PRECONDITION_FAILED", "x-queue-type=\"quorum\"", "x-delivery-limit=50"] {
            assert!(reason.contains(word), "{reason}");
        }
    }
    // The channel that was closed over it is replaced.
    broker.declare("bluefin.eval.other").await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_declared_again() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    consumer.next().await.unwrap().ack().await.unwrap();
    vhost.ctl("delete_queue", &[QUEUE]);
    // What the queue still confirms while it is being deleted goes with it, so one message may not be enough.
    let delivered = async {
        for id in 2_u32.. {
            match broker.publish(QUEUE, &id.to_string(), Bytes::new()).await {
                Ok(()) => {}
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            if let Ok(delivery) = timeout(Duration::from_secs(3), consumer.next()).await {
                return delivery.expect("the consumer goes on");
            }
        }
        unreachable!("it is tried for as long as the test may take");
    };
    timeout(patience(SOON), delivered).await.expect("messages flow again").ack().await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_for_queues_that_are_missing_harms_no_connection() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    broker.declare(QUEUE).await.unwrap();
    // More often than a connection has channel numbers.
    for _ in 0..2500 {
        assert_eq!(broker.depth("bluefin.eval.absent").await.unwrap(), 0);
    }
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 0);
    assert_eq!(broker.reconnects(), 0);
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_short_of_memory_is_waited_for_but_not_for_ever() {
    let rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    rabbit.ctl(&["set_vm_memory_high_watermark", "0"]);
    // The broker takes the message that it answers with the news.
    let blocked = async {
        loop {
            if let Err(error) = broker.publish(QUEUE, "2", Bytes::new()).await {
                return error;
            }
        }
    };
    let error = timeout(patience(SOON), blocked).await.expect("publishing ends");
    let BrokerError::Unavailable { reason, .. } = error else { panic!("{error:?}") };
    assert!(reason.contains("short of memory"), "{reason}");
    // What was published before is counted and consumed meanwhile.
    assert!(broker.depth(QUEUE).await.unwrap() > 0);
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    timeout(patience(SOON), consumer.next()).await.unwrap().unwrap().ack().await.unwrap();
    rabbit.ctl(&["set_vm_memory_high_watermark", "0.4"]);
    broker.publish(QUEUE, "3", Bytes::new()).await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_brokers_own_limit_ends_in_the_dead_queue() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let mut deliveries = 0;
    while let Ok(Some(delivery)) = timeout(Duration::from_secs(3), consumer.next()).await {
        assert_eq!(delivery.redeliveries, deliveries);
        deliveries += 1;
    }
    assert_eq!(deliveries, 51);
    let mut graveyard = broker.consume(DEAD_QUEUE, 1).await.unwrap();
    let dead = timeout(patience(SOON), graveyard.next()).await.unwrap().unwrap();
    let given_up = dead.given_up.clone().unwrap();
    assert_eq!((given_up.queue.as_str(), given_up.reason.as_str()), (QUEUE, "delivery_limit"));
    dead.ack().await.unwrap();
    broker.close().await;
}
