//! The broker over RabbitMQ where something is wrong with it, with a queue, or with a message, and nothing is lost over it.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use bluefin_adapters::amqp::{AmqpBroker, MessageKeys};
use bluefin_common::broker::{Broker, BrokerError, Consumer, DEAD_QUEUE, Delivery};
use bluefin_common::digest::Digest;
use bluefin_test_support::{Proxy, Rabbit, Vhost, eventually, free_port, patience};
use bytes::Bytes;
use futures_util::future::join_all;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

const QUEUE: &str = "bluefin.eval.faults";
const RETIRED: &str = "bluefin.eval.retired";
const SOON: Duration = Duration::from_secs(60);
const A_SECOND: Duration = Duration::from_secs(1);
/// Long enough to delete a queue before what it waits for comes.
const DELAY: Duration = Duration::from_secs(5);

async fn next(consumer: &mut dyn Consumer) -> Delivery {
    timeout(patience(SOON), consumer.next()).await.expect("a delivery within the time").expect("the broker is open")
}

/// Beside bluefin, on the same broker.
async fn raw(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, Default::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// A connection that ends soon after many acknowledgements takes those with it that a quorum queue has not come to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_with_many_prefetched_leaves_each_about_once() {
    const MESSAGES: u64 = 120;
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    let published = (0..MESSAGES).map(|n| broker.publish(QUEUE, "one", Bytes::from(n.to_string())));
    for published in join_all(published).await {
        published.unwrap();
    }
    for _ in 0..3 {
        let leaving = AmqpBroker::connect(&vhost.url()).await.unwrap();
        let mut consumer = leaving.consume(QUEUE, 100).await.unwrap();
        eventually(SOON, "messages prefetched", async || broker.depth(QUEUE).await.unwrap() < MESSAGES).await;
        consumer.stop().await;
        leaving.close().await;
        eventually(SOON, "all back", async || broker.depth(QUEUE).await.unwrap() >= MESSAGES).await;
    }
    tokio::time::sleep(A_SECOND).await;
    // At least once: a queue that is slow may still lose some acknowledgements with their connection.
    let left = broker.depth(QUEUE).await.unwrap();
    assert!((MESSAGES..=MESSAGES + MESSAGES / 10).contains(&left), "{left}");
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_retired_queue_delays_holds_up_nobody() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    // So that what follows does not wait for new queues.
    let first = [QUEUE, RETIRED].map(|queue| broker.publish_after(DELAY, queue, "first", Bytes::new()));
    for published in join_all(first).await {
        published.unwrap();
    }
    next(&mut *consumer).await.ack().await.unwrap();
    let retired = (0..3000).map(|n| broker.publish_after(DELAY, RETIRED, "retired", Bytes::from(n.to_string())));
    for published in join_all(retired).await {
        published.unwrap();
    }
    // Before they are due.
    let (connection, channel) = raw(&vhost.url()).await;
    channel.queue_delete(RETIRED.into(), Default::default()).await.unwrap();
    let started = Instant::now();
    for id in ["a", "b"] {
        broker.publish_after(DELAY, QUEUE, id, Bytes::new()).await.unwrap();
    }
    for expected in ["a", "b"] {
        let found = next(&mut *consumer).await;
        assert_eq!(found.message_id, expected);
        found.ack().await.unwrap();
    }
    assert!(started.elapsed() < patience(4 * DELAY), "took {:?}", started.elapsed());
    // Where they are until somebody wants them.
    let depths = vhost.ctl("list_queues", &["name", "messages"]);
    let delay = format!("bluefin.delay.5s.{RETIRED}");
    let left =
        depths.lines().find_map(|line| line.strip_prefix(&delay)).expect("the delay of the retired queue is there");
    assert_eq!(left.trim(), "3000", "{depths}");
    connection.close(200, "".into()).await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_release_before_delayed_arrives() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let (connection, channel) = raw(&vhost.url()).await;
    let mut arguments = FieldTable::default();
    for (name, text) in [
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", "bluefin"),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-overflow", "reject-publish"),
    ] {
        arguments.insert(name.into(), AMQPValue::LongString(text.into()));
    }
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(1000));
    let (name, durable) =
        ("bluefin.delay.1s", lapin::options::QueueDeclareOptions { durable: true, ..Default::default() });
    let exchange = lapin::options::ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare(name.into(), lapin::ExchangeKind::Fanout, exchange, Default::default()).await.unwrap();
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
    channel.queue_bind(name.into(), name.into(), name.into(), Default::default(), Default::default()).await.unwrap();
    let mut headers = FieldTable::default();
    headers.insert("bluefin-attempt".into(), AMQPValue::LongLongInt(8));
    let digest = Digest::of(b"body").to_string()[..16].to_owned();
    headers.insert("bluefin-digest".into(), AMQPValue::LongString(digest.into()));
    let properties =
        BasicProperties::default().with_headers(headers).with_delivery_mode(2).with_message_id("old".into());
    channel.basic_publish(name.into(), QUEUE.into(), Default::default(), b"body", properties).await.unwrap();
    let found = next(&mut *consumer).await;
    assert_eq!((found.message_id.as_str(), found.body.as_ref(), found.redeliveries), ("old", b"body".as_slice(), 0));
    // Neither its attempts nor its time in the delay are a reason.
    assert_eq!(found.given_up, None);
    found.ack().await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_reaches_no_worker() {
    let vhost = Vhost::fresh();
    let broker = AmqpBroker::connect(&vhost.url()).await.unwrap();
    broker.publish(QUEUE, "whole", Bytes::from_static(b"body")).await.unwrap();
    let (connection, channel) = raw(&vhost.url()).await;
    let digest = Digest::of(b"body").to_string()[..16].to_owned();
    let found = channel.basic_get(QUEUE.into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
    let properties = found.delivery.properties.clone();
    let header = properties.headers().as_ref().unwrap().inner()["bluefin-digest"].clone();
    assert_eq!(header, AMQPValue::LongString(digest.as_str().into()));
    let publish = async |id: &str, body: &[u8], properties: BasicProperties| {
        let properties = properties.with_message_id(id.into());
        let options = BasicPublishOptions::default();
        channel.basic_publish("bluefin".into(), QUEUE.into(), options, body, properties).await.unwrap();
    };
    // A bit flipped on the way.
    publish("damaged", b"bodi", properties.clone()).await;
    // A copy that somebody altered, and its digest with it.
    publish("altered", b"other", BasicProperties::default()).await;
    publish("whole", b"body", properties).await;
    let mut consumer = broker.consume(QUEUE, 10).await.unwrap();
    let found = next(&mut *consumer).await;
    assert_eq!(found.message_id, "whole");
    // A copy says of itself what the original said.
    found.hand_back(Duration::ZERO).await.unwrap();
    next(&mut *consumer).await.dead("given up").await.unwrap();
    eventually(SOON, "three dead letters", async || broker.depth(DEAD_QUEUE).await.unwrap() == 3).await;
    let mut dead = BTreeMap::new();
    while let Some(found) = channel.basic_get(DEAD_QUEUE.into(), BasicGetOptions::default()).await.unwrap() {
        let headers = found.delivery.properties.headers().as_ref().unwrap().inner();
        let id = found.delivery.properties.message_id().as_ref().unwrap().to_string();
        dead.insert(id, (headers.get("bluefin-digest").cloned(), found.delivery.data.clone()));
    }
    assert_eq!(dead["damaged"], (Some(header.clone()), b"bodi".to_vec()));
    assert_eq!(dead["whole"], (Some(header), b"body".to_vec()));
    assert_eq!(dead["altered"], (None, b"other".to_vec()));
    connection.close(200, "done".into()).await.unwrap();
    // Whoever looks at the dead sees it, and why.
    let mut graveyard = broker.consume(DEAD_QUEUE, 10).await.unwrap();
    let mut reasons = BTreeMap::new();
    for _ in 0..3 {
        let found = next(&mut *graveyard).await;
        let given_up = found.given_up.clone().unwrap();
        assert_eq!(given_up.queue, QUEUE);
        reasons.insert(found.message_id.clone(), given_up.reason);
    }
    assert_eq!(reasons["damaged"], "body does not match its digest: damaged on the way");
    assert_eq!(reasons["altered"], "no bluefin-digest header: not published by bluefin");
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_with_a_key_published_reaches_no_worker() {
    let vhost = Vhost::fresh();
    let key = |name: &str, digit: &str| format!("{name}:{}", digit.repeat(64));
    let connect =
        async |keys: String| AmqpBroker::connect_with(&vhost.url(), MessageKeys::parse(&keys).unwrap()).await.unwrap();
    let (old, new) = (key("old", "1"), key("new", "2"));
    let [before, amid] = [connect(old.clone()).await, connect(format!("{new},{old}")).await];
    let stranger = connect(key("old", "3")).await;
    let unsigned = AmqpBroker::connect(&vhost.url()).await.unwrap();
    let publishers = [("before", &before), ("amid", &amid), ("stranger", &stranger), ("unsigned", &unsigned)];
    for (id, publisher) in publishers {
        publisher.declare(QUEUE).await.unwrap();
        publisher.publish(QUEUE, id, Bytes::from_static(b"body")).await.unwrap();
    }
    let mut consumer = amid.consume(QUEUE, 10).await.unwrap();
    for _ in 0..2 {
        // A copy is signed as the original was.
        for _ in 0..2 {
            next(&mut *consumer).await.hand_back(Duration::ZERO).await.unwrap();
        }
    }
    let mut found = Vec::new();
    for _ in 0..2 {
        let delivery = next(&mut *consumer).await;
        found.push(delivery.message_id.clone());
        delivery.ack().await.unwrap();
    }
    found.sort();
    assert_eq!(found, ["amid", "before"]);
    let mut graveyard = amid.consume(DEAD_QUEUE, 10).await.unwrap();
    let mut dead = Vec::new();
    for _ in 0..2 {
        let delivery = next(&mut *graveyard).await;
        assert_eq!(delivery.given_up.clone().unwrap().reason, "not signed with a key of BLUEFIN_MESSAGE_KEYS");
        dead.push(delivery.message_id.clone());
        delivery.ack().await.unwrap();
    }
    dead.sort();
    assert_eq!(dead, ["stranger", "unsigned"]);
    for broker in [before, amid, stranger, unsigned] {
        broker.close().await;
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, BrokerError>, words: &[&str]) {
    let Err(error @ BrokerError::Refused { .. }) = result else { panic!("{result:?}") };
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains("s3cret"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_refusals_pass_once_somebody_mended_them() {
    let rabbit = Rabbit::start();
    let (all, none) = ([".*"; 3], ["^$"; 3]);
    let permit = |[configure, write, read]: [&str; 3]| {
        rabbit.ctl(&["set_permissions", "--vhost", "bluefin", "worker", configure, write, read]);
    };
    rabbit.ctl(&["add_vhost", "bluefin"]);
    rabbit.ctl(&["add_user", "worker", "s3cret"]);
    permit(all);
    let url = rabbit.url().replace("guest:guest", "worker:s3cret").replace("%2f", "bluefin?connection_timeout=3000");
    let broker = AmqpBroker::connect(&url).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    next(&mut *consumer).await.ack().await.unwrap();
    let disconnect = || rabbit.ctl(&["close_all_connections", "--global", "test"]);
    let works = async |id: &str, consumer: &mut dyn Consumer| {
        eventually(SOON, "publishing to work again", async || match broker.publish(QUEUE, id, Bytes::new()).await {
            Ok(()) => true,
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                false
            }
        })
        .await;
        // More than one of them if a confirm was lost.
        let found = next(consumer).await;
        assert_eq!(found.message_id, id);
        found.ack().await.unwrap();
    };

    rabbit.ctl(&["change_password", "worker", "another"]);
    disconnect();
    // The first call may meet the connection that is about to end.
    let _ = broker.publish("bluefin.eval.other", "x", Bytes::new()).await;
    assert_refused(broker.publish(QUEUE, "x", Bytes::new()).await, &["ACCESS_REFUSED", "worker@", "refuses"]);
    assert_refused(AmqpBroker::connect(&url).await.map(|_| ()), &["ACCESS_REFUSED"]);
    rabbit.ctl(&["change_password", "worker", "s3cret"]);
    works("password", &mut *consumer).await;

    // The queue is read through the connection that stands, and everything else is asked for anew.
    permit(none);
    for result in [
        broker.declare("bluefin.eval.locked").await,
        broker.publish("bluefin.eval.locked", "x", Bytes::new()).await,
        broker.consume("bluefin.eval.locked", 1).await.map(|_| ()),
    ] {
        assert_refused(result, &["ACCESS_REFUSED", "bluefin.eval.locked"]);
    }
    let started = Instant::now();
    disconnect();
    eventually(SOON, "a refusal without permissions", async || {
        matches!(broker.publish(QUEUE, "x", Bytes::new()).await, Err(BrokerError::Refused { .. }))
    })
    .await;
    assert!(started.elapsed() < patience(SOON));
    permit(all);
    works("permissions", &mut *consumer).await;

    // What can not be handed back is held until it can be: it would come again at once, until it has used up its deliveries.
    broker.publish(QUEUE, "held", Bytes::new()).await.unwrap();
    let held = next(&mut *consumer).await;
    permit(none);
    let mended = async {
        tokio::time::sleep(3 * A_SECOND).await;
        permit(all);
    };
    let (handed_back, ()) = tokio::join!(held.hand_back(A_SECOND), mended);
    handed_back.unwrap();
    let found = next(&mut *consumer).await;
    assert_eq!((found.message_id.as_str(), found.redeliveries), ("held", 0));
    found.ack().await.unwrap();

    rabbit.ctl(&["delete_vhost", "bluefin"]);
    eventually(SOON, "the connections to be missed", async || broker.reconnects() >= 6).await;
    assert_refused(broker.publish(QUEUE, "x", Bytes::new()).await, &["bluefin", "not found"]);
    rabbit.ctl(&["add_vhost", "bluefin"]);
    permit(all);
    works("vhost", &mut *consumer).await;
    broker.close().await;
}

/// The Raft server of a queue, which does nothing until it is resumed, like one that lost its quorum.
fn suspend(rabbit: &Rabbit, how: &str) {
    rabbit.ctl(&["eval", &format!("ok = sys:{how}(whereis('%2F_{QUEUE}')).")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_a_subscription_that_was_given_up_hoards_nothing() {
    let rabbit = Rabbit::start();
    let broker = AmqpBroker::connect(&format!("{}?connection_timeout=1000", rabbit.url())).await.unwrap();
    for id in 0..10 {
        broker.publish(QUEUE, &id.to_string(), Bytes::new()).await.unwrap();
    }
    // Both connections know the queue: what follows asks for the subscription alone.
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 10);
    suspend(&rabbit, "suspend");
    let mut consumer = broker.consume(QUEUE, 10).await.unwrap();
    let another = broker.consume(QUEUE, 10).await.unwrap();
    suspend(&rabbit, "resume");
    drop(another);
    let mut found = BTreeMap::new();
    while found.len() < 10 {
        let delivery = next(&mut *consumer).await;
        found.insert(delivery.message_id.clone(), ());
        delivery.ack().await.unwrap();
    }
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_what_is_held_for_too_long_comes_again() {
    let rabbit = Rabbit::start();
    let set = |name: &str, value: u32| rabbit.ctl(&["eval", &format!("application:set_env(rabbit, {name}, {value}).")]);
    set("consumer_timeout", 6000);
    set("channel_tick_interval", 500);
    let broker = AmqpBroker::connect(&rabbit.url()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 3).await.unwrap();
    let channels = || rabbit.ctl(&["list_consumers", "channel_pid"]).lines().map(str::to_owned).collect::<Vec<_>>();
    // Before anything is held: asking may take longer than holding may.
    let first = channels();
    for id in 0..4 {
        broker.publish(QUEUE, &id.to_string(), Bytes::new()).await.unwrap();
    }
    let held = next(&mut *consumer).await;
    eventually(SOON, "another channel", async || {
        let now = channels();
        !now.is_empty() && now != first
    })
    .await;
    // One was in hand and two on the shelf; the broker has all three back.
    let result = held.ack().await;
    assert!(matches!(result, Err(BrokerError::Unavailable { .. })), "{result:?}");
    let mut redeliveries = BTreeMap::new();
    while redeliveries.len() < 4 {
        let delivery = next(&mut *consumer).await;
        let (id, count) = (delivery.message_id.clone(), delivery.redeliveries);
        // Where it was held for too long again, it comes again.
        if delivery.ack().await.is_ok() {
            redeliveries.insert(id, count);
        }
    }
    // All but the one that was not in hand, and more than once where this test took longer to see it than the broker to do it again.
    let first_time = redeliveries.values().filter(|count| **count == 0).count();
    assert!(first_time <= 1, "{redeliveries:?}");
    assert_eq!((broker.depth(QUEUE).await.unwrap(), broker.reconnects()), (0, 0));
    broker.close().await;
}

fn addr(url: &str) -> SocketAddr {
    let (_, host) = url.split_once('@').unwrap();
    host.split_once('/').unwrap().0.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_host_that_answers_is_taken() {
    let vhost = Vhost::fresh();
    let (_, name) = vhost.url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (silent, live) = (Proxy::start(addr(&vhost.url())), Proxy::start(addr(&vhost.url())));
    silent.pause();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{},localhost:{}", free_port(), silent.port(), live.port());
    let url = format!("amqp://guest:guest@{hosts}/{name}?connection_timeout=2000");
    let broker = timeout(patience(SOON), AmqpBroker::connect(&url)).await.unwrap().unwrap();
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    broker.publish(QUEUE, "1", Bytes::new()).await.unwrap();
    next(&mut *consumer).await.ack().await.unwrap();
    // Now it answers elsewhere.
    live.cut();
    silent.resume();
    eventually(SOON, "the connections to be missed", async || broker.reconnects() >= 2).await;
    eventually(SOON, "the other host", async || broker.publish(QUEUE, "2", Bytes::new()).await.is_ok()).await;
    // The acknowledgement of the first may have been lost with its connection.
    loop {
        let found = next(&mut *consumer).await;
        let id = found.message_id.clone();
        found.ack().await.unwrap();
        if id == "2" {
            break;
        }
        assert_eq!(id, "1");
    }
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_connect_leaves_nothing() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("amqp://guest:guest@{}/%2f", listener.local_addr().unwrap());
    let connecting = TaskTracker::new().spawn(async move { AmqpBroker::connect(&url).await.map(|_| ()) });
    // A broker that takes connections and says nothing.
    let accepted = TaskTracker::new().spawn_blocking(move || (listener.accept().unwrap().0, listener));
    let (mut silent, listener) = timeout(patience(SOON), accepted).await.unwrap().unwrap();
    silent.set_read_timeout(Some(patience(SOON))).unwrap();
    let mut greeting = [0; 8];
    silent.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"AMQP\x00\x00\x09\x01");
    connecting.abort();
    assert!(connecting.await.unwrap_err().is_cancelled());
    // The connection ends at once, well before the patience for an answer, and nobody tries again.
    let started = Instant::now();
    assert_eq!(silent.read(&mut greeting).unwrap(), 0);
    assert!(started.elapsed() < patience(Duration::from_secs(5)), "{:?}", started.elapsed());
    listener.set_nonblocking(true).unwrap();
    tokio::time::sleep(A_SECOND).await;
    assert!(listener.accept().is_err(), "somebody still connects");
}
