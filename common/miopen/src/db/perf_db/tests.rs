use bluefin_test_support::data;
use proptest::prelude::*;

use super::*;
use crate::db::error::ReadError;
use crate::db::findings::FindingKind;

const KEY: &str = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
const KEY_3D: &str = "3x64x28x28x2x1x1x3x32x8x0x0x1x1x1x1x1x1x1x0x2xNDHWCxFP32xF";

fn text(db: &PerfDb) -> String {
    let mut out = Vec::new();
    db.write_text(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn sqlite(db: &PerfDb) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(db.write_sqlite(file.path()).unwrap(), db.rows());
    std::fs::read(file.path()).unwrap()
}

fn db(records: &[(&str, &[(&str, &str)])]) -> PerfDb {
    let solvers = |solvers: &[(&str, &str)]| solvers.iter().map(|(s, p)| ((*s).into(), (*p).into())).collect();
    let records = records.iter().map(|(key, rows)| (key.parse().unwrap(), solvers(rows))).collect();
    PerfDb { records, ..PerfDb::default() }
}

fn sample() -> PerfDb {
    db(&[
        (KEY, &[("ConvAsm3x3U", "7,8,4"), ("ConvCk", "Device<256, 128> A:B=1")]),
        (KEY_3D, &[("ConvBinWinogradRxSf3x2", "60")]),
    ])
}

#[test]
fn golden_text() {
    let expected =
        format!("{KEY}=ConvAsm3x3U:7,8,4;ConvCk:Device<256, 128> A:B=1\n{KEY_3D}=ConvBinWinogradRxSf3x2:60\n");
    assert_eq!(text(&sample()), expected);
    assert_eq!(PerfDb::parse_text("test", expected.as_bytes()).unwrap(), sample());
}

#[test]
fn golden_sqlite() {
    let bytes = sqlite(&sample());
    crate::db::sqlite::check_header(&bytes);
    assert!(sqlite(&sample()) == bytes, "the same rows gave other bytes");
    assert_eq!(PerfDb::parse_sqlite("test", &bytes).unwrap(), sample());

    let connection = crate::db::sqlite::open_bytes("test", &bytes).unwrap();
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY rowid").unwrap();
    let schema: Vec<[String; 3]> = statement
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let names: Vec<[&str; 2]> = schema.iter().map(|[kind, name, _]| [kind.as_str(), name.as_str()]).collect();
    assert_eq!(names, [["table", "config"], ["table", "perf_db"], ["index", "idx_config"], ["index", "idx_perf_db"]]);
    let [_, _, config] = &schema[0];
    assert!(
        config.starts_with("CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,`layout` TEXT NOT NULL,"),
        "{config}"
    );
    assert!(config.ends_with("`dilation_d` INT NOT NULL,`bias` INT NOT NULL,`group_count` INT NOT NULL)"), "{config}");
    let row: Vec<rusqlite::types::Value> = connection
        .query_row("SELECT * FROM config WHERE id = 1", [], |row| (0..25).map(|column| row.get(column)).collect())
        .unwrap();
    let integers = [2, 1000, 13, 13, 1, 1, 1, 1, 512, 16, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1];
    assert_eq!(row[0], 1.into());
    assert_eq!(row[1..4], ["NCHW", "FP16", "B"].map(|text| text.to_string().into()));
    assert_eq!(row[4..], integers.map(|int: i64| rusqlite::types::Value::Integer(int)));
    let digest = bluefin_common::digest::Digest::of(&bytes).short();
    // Pins the whole file. It may change with SQLite itself, and with nothing else.
    assert_eq!((rusqlite::version(), bytes.len(), digest.as_str()), (GOLDEN.0, GOLDEN.1, GOLDEN.2));
}

/// SQLite's version, size and short digest of the sample's file.
const GOLDEN: (&str, usize, &str) = ("3.54.1", 20_480, "415bc44dd64c");

#[test]
fn keys_without_params_are_left_out() {
    let mut with = sample();
    with.records.insert(KEY_3D.replace("FP32", "BF16").parse().unwrap(), Solvers::new());
    assert_eq!(text(&with), text(&sample()));
    assert!(sqlite(&with) == sqlite(&sample()));
}

#[test]
fn what_a_form_can_not_hold_is_refused() {
    for (solver, params) in [("A", "1;2"), ("A", "1\r"), ("A=B", "1"), ("A:B", "1"), ("A", "1\n"), ("", "1")] {
        let wrong = db(&[(KEY, &[(solver, params)])]);
        assert!(wrong.write_text(&mut Vec::new()).is_err(), "{solver:?} {params:?}");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(wrong.write_sqlite(file.path()).is_err(), "{solver:?} {params:?}");
    }
}

#[test]
fn oddities_are_findings() {
    use FindingKind as K;
    let lines = format!("{KEY}=A:1;A:2;B\n{KEY}=C:3\nnonsense=A:1\n{KEY_3D}=A:1\r\n\n");
    let read = PerfDb::parse_text("test", lines.as_bytes()).unwrap();
    let kinds: Vec<_> = read.findings.kept.iter().map(|finding| (finding.line, finding.kind)).collect();
    assert_eq!(kinds, [(1, K::NoName), (1, K::DuplicateSolver), (2, K::DuplicateKey), (3, K::Key), (4, K::Space)]);
    assert_eq!(read.records, db(&[(KEY, &[("A", "1")]), (KEY_3D, &[("A", "1")])]).records);
}

fn broken(change: &str) -> Result<PerfDb, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    sample().write_sqlite(file.path()).unwrap();
    let connection = rusqlite::Connection::open(file.path()).unwrap();
    connection.execute_batch(change).unwrap();
    connection.close().unwrap();
    PerfDb::parse_sqlite("test", &std::fs::read(file.path()).unwrap())
}

#[test]
fn rows_that_make_no_sense_are_findings() {
    use FindingKind as K;
    for (change, kind) in [
        ("INSERT INTO perf_db VALUES(9, 'A', 77, '1')", K::Reference),
        ("INSERT INTO perf_db VALUES(9, 'A', 1, x'00')", K::Column),
        ("UPDATE config SET layout = 'ABCD' WHERE id = 2", K::Key),
        ("UPDATE config SET in_h = 1.5 WHERE id = 2", K::Key),
        ("DELETE FROM perf_db WHERE config = 2", K::Reference),
        (
            "DROP INDEX idx_perf_db; INSERT INTO perf_db SELECT 9, solver, config, 'x' FROM perf_db WHERE id = 1",
            K::DuplicateSolver,
        ),
    ] {
        let read = broken(change).unwrap();
        assert!(read.findings.has(kind), "{change}: {:?}", read.findings);
        assert!(read.records[&KEY.parse().unwrap()].contains_key("ConvAsm3x3U"), "{change}");
    }
}

#[test]
fn files_that_are_no_perf_db_are_refused() {
    for (change, reason) in [
        ("DROP TABLE perf_db", "table perf_db: not there"),
        ("ALTER TABLE config RENAME COLUMN in_h TO height", "table config: column in_h: not there"),
        ("ALTER TABLE config ADD COLUMN extra INT AS (in_h * 2)", "expected a stored one"),
        (
            "ALTER TABLE perf_db RENAME TO old; CREATE VIEW perf_db AS SELECT * FROM old",
            "found a view that is not an ordinary table",
        ),
    ] {
        let error = broken(change).unwrap_err().to_string();
        assert!(error.contains(reason), "{change}: {error}");
    }
    assert!(PerfDb::parse_sqlite("test", b"").is_err());
    assert!(PerfDb::parse_sqlite("test", b"SQLite format 3\0").is_err());
    // More columns do no harm, nor does a write-ahead log that was left behind.
    assert_eq!(broken("ALTER TABLE config ADD COLUMN extra INT").unwrap(), sample());
    assert_eq!(broken("PRAGMA journal_mode = WAL").unwrap(), sample());
}

fn round_trip_of(name: &str, configs: usize, rows: u64) {
    let first = PerfDb::parse_sqlite(name, &data(&format!("miopen/{name}"))).unwrap();
    assert_eq!((first.records.len(), first.rows()), (configs, rows));
    assert!(first.findings.is_empty(), "{:?}", first.findings.kept);
    let second = PerfDb::parse_text("text", text(&first).as_bytes()).unwrap();
    assert!(second == first, "sqlite to text");
    let file = tempfile::NamedTempFile::new().unwrap();
    second.write_sqlite(file.path()).unwrap();
    let third = PerfDb::read_sqlite(file.path()).unwrap();
    assert!(third == first, "text to sqlite");
}

#[test]
fn a_shipped_file_survives_both_forms() {
    round_trip_of("gfx942130.db", 9393, 21_058);
}

#[test]
fn a_large_shipped_file_survives_both_forms() {
    round_trip_of("gfx906_60.db", 24_880, 37_037);
}

prop_compose! {
    fn any_key()(integers in proptest::array::uniform21(0_u32..2000), three in any::<bool>(), kind in 0_usize..4) -> PerfDbKey {
        let mut integers = integers;
        integers[0] = if three { 3 } else { 2 };
        let integers: Vec<String> = integers.iter().map(u32::to_string).collect();
        let layout = if three { "NCDHW" } else { "NHWC" };
        let kind = ["FP32", "FP16", "BF16", "INT8INT8INT32"][kind];
        format!("{}x{layout}x{kind}xW", integers.join("x")).parse().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn round_trip(records in proptest::collection::btree_map(
        any_key(),
        proptest::collection::btree_map("[A-Za-z][A-Za-z0-9<>-]{0,12}", "[ -:<-~]{0,30}", 1..4),
        0..6,
    )) {
        let shared = |(key, solvers): (PerfDbKey, BTreeMap<String, String>)| {
            (key, solvers.into_iter().map(|(solver, params)| (solver.into(), params.into())).collect())
        };
        let db = PerfDb { records: records.into_iter().map(shared).collect(), ..PerfDb::default() };
        prop_assert_eq!(&PerfDb::parse_text("test", text(&db).as_bytes()).unwrap(), &db);
        let bytes = sqlite(&db);
        prop_assert_eq!(&PerfDb::parse_sqlite("test", &bytes).unwrap(), &db);
        prop_assert!(sqlite(&db) == bytes);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = PerfDb::parse_text("test", &bytes);
        let _ = PerfDb::parse_sqlite("test", &bytes);
    }

    #[test]
    fn no_damage_panics(at in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = sqlite(&sample());
        for (index, byte) in at {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let _ = PerfDb::parse_sqlite("test", &bytes);
    }
}
