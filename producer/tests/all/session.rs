//! Making sessions in an embedded store.

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::method::Method;
use bluefin_common::session::{Pins, Session, Stage};
use bluefin_common::store::Sessions as _;
use bluefin_producer::session::{Wanted, make};

fn wanted(name: Option<&str>, label: &str, pins: &[(&str, &str)]) -> Wanted {
    let target = "gfx90a-104".parse().unwrap();
    let plain = Session::of_kernels(name.unwrap_or("1").parse().unwrap(), target, label, &Stage::ALL, 1);
    let pins: Pins = pins.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Wanted { session: Session { method: Method::FIN, ..plain }, named: name.is_some(), pins }
}

#[tokio::test]
async fn numbers_count_on_and_the_same_content_is_the_same_session() {
    let store = SqliteStore::in_memory().unwrap();
    let made = async |wanted: Wanted| {
        let made = make(&store, &wanted).await.unwrap();
        (made.session.name.to_string(), made.new)
    };
    let named = |name: &str, new| (name.to_string(), new);
    assert_eq!(made(wanted(None, "a", &[])).await, named("1", true));
    assert_eq!(made(wanted(None, "b", &[])).await, named("2", true));
    assert_eq!(made(wanted(None, "a", &[])).await, named("1", false));
    assert_eq!(made(wanted(Some("nightly"), "a", &[])).await, named("nightly", true));
    assert_eq!(made(wanted(None, "c", &[])).await, named("3", true));
    // Another ticket is another session; the first had none, and has this one now.
    assert_eq!(made(wanted(None, "c", &[("ticket", "x")])).await, named("3", false));
    assert_eq!(made(wanted(None, "c", &[("ticket", "y")])).await, named("4", true));
    assert_eq!(made(wanted(None, "c", &[("ticket", "y")])).await, named("4", false));
    // Later does not matter.
    let mut later = wanted(None, "b", &[]);
    later.session.created_ms = 99;
    assert_eq!(made(later).await, named("2", false));
    assert_eq!(store.pins(&"4".parse().unwrap()).await.unwrap()["ticket"], "y");
}

#[tokio::test]
async fn a_name_that_is_taken_says_by_what() {
    let store = SqliteStore::in_memory().unwrap();
    make(&store, &wanted(Some("n"), "a", &[("rocm", "6.3")])).await.unwrap();
    let mut other = wanted(Some("n"), "a", &[]);
    other.session.budget.solver_ms = Some(5);
    let message = make(&store, &other).await.unwrap_err().to_string();
    assert!(message.starts_with("session n: its budget is Budget { solver_ms: None,"), "{message}");
    let message = make(&store, &wanted(Some("n"), "a", &[("rocm", "6.4")])).await.unwrap_err().to_string();
    assert_eq!(message, "session n: its rocm is pinned to 6.3, found 6.4; use another session name");
}

#[tokio::test]
async fn two_at_once_make_one_session() {
    let store = SqliteStore::in_memory().unwrap();
    let wanted = wanted(None, "a", &[]);
    let (one, two) = tokio::join!(make(&store, &wanted), make(&store, &wanted));
    assert_eq!(one.unwrap().session, two.unwrap().session);
    assert_eq!(store.sessions().await.unwrap().len(), 1);
}
