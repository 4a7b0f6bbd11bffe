//! The problem library in an embedded store.

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::wire;
use bluefin_producer::input::{Overrides, ProblemList, read_problems};
use bluefin_producer::library::{AddOptions, Added, Library, LibraryError, LibraryRecord, Tag, TagName, Tagged};

fn list(name: &str, text: &str) -> ProblemList {
    read_problems(name, text.as_bytes(), &Overrides::default())
}

fn tag(name: &str) -> TagName {
    name.parse().unwrap()
}

#[tokio::test]
async fn the_same_list_again_changes_nothing() {
    let store = SqliteStore::in_memory().unwrap();
    let library = Library::new(&store);
    let text = "conv -n 1 -F 1\nconv -n 2 -F 1\nconv -n 1 -F 1\n";
    let options = AddOptions { now_ms: 7, ..AddOptions::default() };
    let add = async |name, text| library.add(&tag("net"), &list(name, text), options).await.unwrap();
    assert_eq!(add("a.txt", text).await, Added { new: 2, present: 0, unknown: 0 });
    let before = library.problems(&tag("net")).await.unwrap();
    assert_eq!(add("b.txt", text).await, Added { new: 0, present: 2, unknown: 0 });
    assert_eq!(library.problems(&tag("net")).await.unwrap(), before);
    let mut shown: Vec<_> = before.iter().map(|one| (one.source.as_str(), one.count)).collect();
    shown.sort_unstable();
    assert_eq!(shown, [("a.txt:1", 2), ("a.txt:2", 1)]);
    // More often in one list: that is its count now.
    add("c.txt", "conv -n 2 -F 1\nconv -n 2 -F 1\nconv -n 3 -F 1\n").await;
    let counts: u64 = library.problems(&tag("net")).await.unwrap().iter().map(|one| one.count).sum();
    assert_eq!(counts, 2 + 2 + 1);
}

#[tokio::test]
async fn tags_are_marked_filtered_and_removed() {
    let store = SqliteStore::in_memory().unwrap();
    let library = Library::new(&store);
    let known = AddOptions { known_only: true, recurrent: true, now_ms: 9 };
    library.add(&tag("a"), &list("a", "conv -n 1 -F 1\n"), AddOptions::default()).await.unwrap();
    let added = library.add(&tag("b"), &list("b", "conv -n 1 -F 1\nconv -n 9 -F 1\n"), known).await.unwrap();
    assert_eq!(added, Added { new: 1, present: 0, unknown: 1 });
    library.add(&tag("a"), &list("a", ""), AddOptions { recurrent: true, ..AddOptions::default() }).await.unwrap();
    let tags = library.tags().await.unwrap();
    let marked = |name: &str, created_ms| (name.to_string(), Tag { recurrent: true, created_ms });
    assert_eq!(tags, [marked("a", 0), marked("b", 9)]);
    assert_eq!(library.remove(&tag("b")).await.unwrap(), 1);
    let error = library.problems(&tag("b")).await.unwrap_err();
    assert!(matches!(&error, LibraryError::NoTag { name, .. } if name == "b"));
    assert!(error.to_string().contains("bluefin problems import -t b"), "{error}");
    assert_eq!(library.problems(&tag("a")).await.unwrap().len(), 1);
    for wrong in ["", "a/b", "a b", ".a"] {
        assert!(wrong.parse::<TagName>().unwrap_err().to_string().starts_with("tag: found"), "{wrong}");
    }
}

/// What is stored by one version is read by the next.
#[test]
fn stored_records_stay() {
    let problem =
        Problem::Kernel(KernelProblem::new("stencil".to_string(), [("n".to_string(), 5_i64.into())].into()).unwrap());
    let hex = |record: &LibraryRecord| {
        wire::encode(record).unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let tag = LibraryRecord::Tag(Tag { recurrent: true, created_ms: 3 });
    assert_eq!(hex(&tag), "424607010100".to_string() + "01" + "03");
    let tagged = LibraryRecord::Problem(Tagged { problem, count: 2, source: "a:1".to_string() });
    assert_eq!(hex(&tagged), "4246070101".to_string() + "01" + "02077374656e63696c01016e000a" + "02" + "03613a31");
}
