use bluefin_test_support::data;
use proptest::prelude::*;

use super::*;

const KEY: &str = "1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B";
const GEMM: &str = "miopenConvolutionBwdDataAlgoGEMM";

fn parse(text: &str) -> FindDb {
    FindDb::parse("test", text.as_bytes()).unwrap()
}

fn written(db: &FindDb) -> String {
    let mut out = Vec::new();
    db.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn entry(solver: &str, time_ms: f32, workspace: u64, algorithm: &str) -> FindEntry {
    FindEntry::new(solver.into(), time_ms, workspace, algorithm.into())
}

fn kinds(db: &FindDb) -> Vec<FindingKind> {
    db.findings.kept.iter().map(|finding| finding.kind).collect()
}

#[test]
fn golden_bytes() {
    let entries = vec![
        entry(
            "ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC",
            0.051_639,
            45_685_145_600,
            "miopenConvolutionBwdDataAlgoImplicitGEMM",
        ),
        entry("ConvMPBidirectWinograd<2-3>", 1e-5, 0, "miopenConvolutionBwdDataAlgoWinograd"),
    ];
    let records = [(KEY.to_string(), entries), ("0-no-entries".to_string(), Vec::new())].into();
    let db = FindDb { records, ..FindDb::default() };
    let text = format!(
        "{KEY}=ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC:0.051639,45685145600,miopenConvolutionBwdDataAlgoImplicitGEMM;\
         ConvMPBidirectWinograd<2-3>:1e-05,0,miopenConvolutionBwdDataAlgoWinograd\n"
    );
    assert_eq!(written(&db), text);
    let read = parse(&text);
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    assert_eq!(read.records[KEY], db.records[KEY]);
}

/// What MIOpen's reader makes of each oddity.
#[test]
fn reads_what_miopen_reads() {
    use FindingKind as K;
    let good = || vec![entry("A", 1.5, 8, GEMM)];
    let nothing = Vec::new;
    for (line, entries, findings) in [
        (format!("A:1.5,8,{GEMM}"), good(), vec![]),
        (format!("A:1.5,8,{GEMM};"), good(), vec![]),
        (format!("A:1.5,8,{GEMM};B"), good(), vec![K::NoName]),
        (format!("A:1.5,8,{GEMM};;"), good(), vec![K::NoName]),
        (format!("A:1.5,8,{GEMM};A:2,8,{GEMM}"), good(), vec![K::DuplicateSolver]),
        (format!("A:1.5,8,{GEMM},more"), good(), vec![K::ExtraFields]),
        (format!("A:1.5,8,{GEMM}\r"), good(), vec![]),
        (format!("A:1.5,8, {GEMM}"), good(), vec![K::Space]),
        (format!("A:1.5,,{GEMM}"), vec![entry("A", 1.5, u64::MAX, GEMM)], vec![K::Number]),
        (format!("A: ,8,{GEMM}"), vec![entry("A", -1.0, 8, GEMM)], vec![K::Number, K::Time]),
        (format!("A:x,8,{GEMM}"), vec![entry("A", 0.0, 8, GEMM)], vec![K::Number, K::Time]),
        (format!("A:1.5,-1,{GEMM}"), vec![entry("A", 1.5, u64::MAX, GEMM)], vec![K::Number]),
        (format!(" A:1.5,8,{GEMM}"), vec![entry(" A", 1.5, 8, GEMM)], vec![K::Space]),
        ("A:1.5,8".to_string(), vec![entry("A", -1.0, u64::MAX, INVALID)], vec![K::MissingFields]),
        (
            "A:1.5,8,miopenConvolutionFwdAlgoGEMM".to_string(),
            vec![entry("A", 1.5, 8, "miopenConvolutionFwdAlgoGEMM")],
            vec![K::Algorithm],
        ),
        (String::new(), nothing(), vec![K::NoEntry]),
        ("junk".to_string(), nothing(), vec![K::NoName, K::NoEntry]),
        (format!("{GEMM}:A,1.5,8,{GEMM},<unused>"), good(), vec![]),
        (format!("{GEMM}:A,1.5,8,"), good(), vec![]),
        (format!("{GEMM}:A,1.5,8"), nothing(), vec![K::MissingFields]),
        (format!("{GEMM}:A,1.5"), nothing(), vec![K::MissingFields]),
        (format!("{GEMM}:A,1.5,8,x;A:2,8,{GEMM}"), good(), vec![K::DuplicateSolver]),
    ] {
        let db = parse(&format!("{KEY}={line}\n"));
        assert_eq!(db.records[KEY], entries, "{line:?}");
        assert_eq!(kinds(&db), findings, "{line:?}");
    }
}

#[test]
fn lines_that_are_not_used() {
    use FindingKind as K;
    let text = format!("\n# comment\n=x\n{KEY}=A:1,0,{GEMM}\n{KEY}=B:1,0,{GEMM}\nnot a key=A:1,0,{GEMM}\n");
    let db = parse(&text);
    assert_eq!(kinds(&db), [K::NoKey, K::NoKey, K::DuplicateKey, K::Key]);
    let lines: Vec<u64> = db.findings.kept.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [2, 3, 5, 6]);
    assert_eq!(&*db.records[KEY][0].solver, "A");
    let db = FindDb::parse("test", b"\xff=A:1,0,x\n").unwrap();
    assert_eq!(kinds(&db), [K::NotText]);
    let legacy = "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F=A:1,0,miopenConvolutionFwdAlgoGEMM\n";
    assert_eq!(kinds(&parse(legacy)), [K::LegacyKey]);
}

/// A time that is not MIOpen's way of writing it stays as it is.
#[test]
fn times_keep_their_text() {
    for time in ["2.0", "0.12345678", "1e-5", "+1", "00.5", "1000000"] {
        let text = format!("{KEY}=A:{time},8,{GEMM}\n");
        let db = parse(&text);
        assert!(db.findings.is_empty(), "{time}");
        assert_eq!(written(&db), text);
    }
    let two = |text: &str| parse(&format!("{KEY}=A:{text},8,{GEMM}\n")).records;
    assert_eq!(two("2.0"), two("2"));
    // What is read as another number is written as it was read.
    assert_eq!(written(&parse(&format!("{KEY}=A: 2.0x,8,{GEMM}\n"))), format!("{KEY}=A:2,8,{GEMM}\n"));
}

#[test]
fn findings_are_counted_not_kept_without_end() {
    let db = parse(&"x\n".repeat(5000));
    assert_eq!((db.findings.total, db.findings.kept.len()), (5000, 1000));
}

/// A line of a million entries, and one entry as long as its file, take time and memory in proportion.
#[test]
fn one_long_line_is_no_trouble() {
    let entries: String = (0..200_000).map(|index| format!("S{index}:1,0,{GEMM};")).collect();
    assert_eq!(parse(&format!("{KEY}={entries}")).records[KEY].len(), 200_000);
    let db = parse(&"x".repeat(10_000_000));
    assert!(db.findings.kept[0].detail.len() < 400);
}

#[test]
fn what_would_read_back_differently_is_refused() {
    let refused = |key: &str, entry: FindEntry| {
        let db = FindDb { records: [(key.to_string(), vec![entry])].into(), ..FindDb::default() };
        db.write(&mut Vec::new()).unwrap_err().to_string()
    };
    assert!(refused("a=b", entry("A", 1.0, 0, GEMM)).starts_with("find db: key: found \"a=b\""));
    assert!(refused(KEY, entry("A=B", 1.0, 0, GEMM)).contains("solver"));
    assert!(refused(KEY, entry("A:B", 1.0, 0, GEMM)).contains("solver"));
    assert!(refused(KEY, entry("", 1.0, 0, GEMM)).contains("solver"));
    assert!(refused(KEY, entry(GEMM, 1.0, 0, GEMM)).contains("an algorithm's"));
    assert!(refused(KEY, entry("A", 1.0, 0, "a,b")).contains("algorithm"));
}

#[test]
fn algorithms_are_those_of_miopen() {
    for direction in Direction::ALL {
        for algorithm in Algorithm::ALL {
            let name = algorithm.miopen_name(direction);
            assert_eq!(name.is_none(), direction == Direction::BackwardWeights && algorithm == Algorithm::Fft);
            if let Some(name) = name {
                let others: Vec<_> = Direction::ALL.into_iter().filter(|other| *other != direction).collect();
                assert!(is_algorithm(&name, &[direction]) && !is_algorithm(&name, &others), "{name}");
            }
        }
    }
    assert!(is_algorithm("miopenTransposeBwdDataAlgoGEMM", &[Direction::BackwardData]));
}

#[test]
fn a_shipped_version_2_file_is_written_back_byte_for_byte() {
    let bytes = data("miopen/gfx942130.HIP.fdb.txt");
    let db = FindDb::parse("gfx942130.HIP.fdb.txt", &bytes).unwrap();
    assert_eq!((db.records.len(), db.legacy_lines), (9600, 0));
    assert_eq!(db.records.values().map(Vec::len).sum::<usize>(), 37_792);
    assert_eq!(db.findings, Findings::default());
    assert!(written(&db).as_bytes() == bytes, "differs from what was read");
}

#[test]
fn a_shipped_version_1_file_becomes_version_2() {
    let bytes = data("miopen/gfx906_60.HIP.fdb.txt");
    let db = FindDb::parse("gfx906_60.HIP.fdb.txt", &bytes).unwrap();
    assert_eq!((db.records.len(), db.legacy_lines), (120_454, 120_454));
    assert_eq!(db.records.values().map(Vec::len).sum::<usize>(), 244_451);
    assert!(db.findings.kept.iter().all(|finding| finding.kind == FindingKind::Time), "{:?}", db.findings.kept);
    let again = FindDb::parse("version 2", written(&db).as_bytes()).unwrap();
    assert_eq!(again.legacy_lines, 0);
    assert!(again.records == db.records, "differs from what was read");
}

prop_compose! {
    fn entries()(
        solvers in proptest::collection::btree_set("[A-Za-z][A-Za-z0-9_<>-]{0,20}", 1..5),
        times in proptest::collection::vec(1e-6_f32..1e6, 5),
        workspaces in proptest::collection::vec(any::<u64>(), 5),
        direction in 0_usize..3,
        algorithms in proptest::collection::vec(0_usize..5, 5),
    ) -> Vec<FindEntry> {
        solvers.iter().enumerate().map(|(index, solver)| {
            let algorithm = Algorithm::ALL[algorithms[index]].miopen_name(Direction::ALL[direction]);
            let (time_ms, _) = number::read_float(&number::print(times[index]));
            entry(solver, time_ms, workspaces[index], &algorithm.unwrap_or_else(|| GEMM.to_string()))
        }).collect()
    }
}

proptest! {
    #[test]
    fn round_trip(records in proptest::collection::btree_map("[0-9A-Zx-]{1,40}", entries(), 0..8)) {
        let db = FindDb { records, ..FindDb::default() };
        let text = written(&db);
        let read = parse(&text);
        prop_assert_eq!(&read.records, &db.records);
        prop_assert_eq!(written(&read), text);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = FindDb::parse("test", &bytes);
    }

    #[test]
    fn no_text_panics(text in "([0-9x=:;,\\-\n\r ]|miopenConvolutionFwdAlgoGEMM|NCHW|FP32|-F|é){0,80}") {
        let db = parse(&text);
        let mut out = Vec::new();
        let _ = db.write(&mut out);
    }
}
