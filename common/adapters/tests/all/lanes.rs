//! Lanes of queues, at a RabbitMQ: who is behind whom.

use std::sync::Arc;
use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::broker::{Broker, Delivery, delay_queue};
use bluefin_common::lane::Lane;
use bluefin_common::priority::{AHEAD, Priority, Spread};
use bluefin_test_support::{Vhost, patience};
use tokio::time::timeout;

const QUEUE: &str = "bluefin.eval.gfx000-1";
const PATIENCE: Duration = Duration::from_secs(30);

async fn broker(vhost: &Vhost) -> Arc<AmqpBroker> {
    Arc::new(AmqpBroker::connect(&vhost.url()).await.unwrap())
}

/// Enqueues `count` jobs at a time.
async fn enqueue(broker: &AmqpBroker, priority: Priority, count: u64) {
    let mut spread = Spread::new(priority);
    for job in 0..count {
        let lane = spread.next(broker, QUEUE).await.unwrap();
        broker.publish(&lane, &job.to_string(), "x".into()).await.unwrap();
    }
}

async fn depths(broker: &AmqpBroker) -> [u64; 4] {
    let mut depths = [0; 4];
    for (depth, lane) in depths.iter_mut().zip(Lane::ALL) {
        // That of the first alone: by the queue's name all of them would be meant.
        let others = if lane == Lane::First { Lane::ALL.into_iter().skip(1).collect() } else { Vec::new() };
        *depth = broker.depth(&lane.of(QUEUE)).await.unwrap();
        for other in others {
            *depth -= broker.depth(&other.of(QUEUE)).await.unwrap();
        }
    }
    depths
}

#[tokio::test]
async fn what_is_enqueued_is_spread_over_lanes() {
    let vhost = Vhost::fresh();
    let broker = broker(&vhost).await;
    enqueue(&broker, Priority::Normal, AHEAD + 40).await;
    assert_eq!(depths(&broker).await, [AHEAD, 40, 0, 0]);
    // Beside it, not behind it; and the next where less waits.
    enqueue(&broker, Priority::Normal, AHEAD + 30).await;
    assert_eq!(depths(&broker).await, [2 * AHEAD, 40, 30, 0]);
    enqueue(&broker, Priority::Normal, AHEAD + 5).await;
    assert_eq!(depths(&broker).await, [3 * AHEAD, 40, 35, 0]);
    enqueue(&broker, Priority::Low, 7).await;
    enqueue(&broker, Priority::High, AHEAD + 1).await;
    assert_eq!(depths(&broker).await, [4 * AHEAD + 1, 40, 35, 7]);
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 4 * AHEAD + 83);
    broker.close().await;
}

#[tokio::test]
async fn lanes_are_taken_from_in_turns_and_go_back_where_they_came_from() {
    let vhost = Vhost::fresh();
    let broker = broker(&vhost).await;
    for lane in Lane::ALL {
        for job in 0..20 {
            broker.publish(&lane.of(QUEUE), &job.to_string(), "x".into()).await.unwrap();
        }
    }
    let mut consumer = broker.consume(QUEUE, 20).await.unwrap();
    // All lanes are here before the first is taken.
    while broker.depth(QUEUE).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut taken: Vec<Delivery> = Vec::new();
    for _ in 0..36 {
        taken.push(timeout(patience(PATIENCE), consumer.next()).await.unwrap().unwrap());
    }
    let of = |lane: Lane| taken.iter().filter(|delivery| Lane::split(&delivery.queue).1 == lane).count() as i64;
    assert_eq!(Lane::ALL.map(of), Lane::ALL.map(|lane| 4 * lane.turns()));
    // Within one round everybody has a turn.
    let first_nine: Vec<&str> = taken.iter().take(9).map(|delivery| &*delivery.queue).collect();
    assert!(Lane::ALL.iter().all(|lane| first_nine.contains(&&*lane.of(QUEUE))), "{first_nine:?}");

    for delivery in taken {
        delivery.hand_back(Duration::ZERO).await.unwrap();
    }
    consumer.stop().await;
    assert_eq!(depths(&broker).await, [20; 4]);

    // What is delayed is counted with its queue.
    let delay = Duration::from_secs(125);
    broker.publish_after(delay, &Lane::Last.of(QUEUE), "late", "x".into()).await.unwrap();
    assert_eq!(broker.depth(&delay_queue(QUEUE, delay)).await.unwrap(), 1);
    broker.close().await;
}
