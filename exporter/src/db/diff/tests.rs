use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::db::perf_db::PerfDb;

use super::*;

const PERF_KEY: &str = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";

fn compare(before: &[u8], after: &[u8], ending: &str) -> Diff {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(format!("{name}{ending}"));
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let request =
        DiffRequest { before: write("before", before), after: write("after", after), noise: 0.05, threshold: 0.1 };
    diff(&request, &|_| {}).unwrap()
}

fn finds(rows: &[(u32, &str)]) -> String {
    let entry = |entry: &str| format!("{entry},0,miopenConvolutionBwdDataAlgoGEMM");
    rows.iter()
        .map(|(batch, entries)| {
            let entries: Vec<_> = entries.split(';').map(entry).collect();
            format!("{}={}\n", batch_key(*batch), entries.join(";"))
        })
        .collect()
}

fn batch_key(batch: u32) -> String {
    format!("1000-13-13-1x1-512-13-13-{batch}-0x0-1x1-1x1-0-NCHW-FP16-B")
}

#[test]
fn find_dbs_by_their_fastest_solvers() {
    let before = finds(&[(1, "A:1;B:2"), (2, "A:1"), (3, "A:1"), (4, "A:1"), (5, "A:1"), (6, "A:0"), (8, "A:1")]);
    let after =
        finds(&[(1, "B:0.5;A:1"), (2, "A:1.04"), (3, "A:1.08"), (4, "A:2"), (6, "A:1"), (7, "A:1"), (8, "B:1")]);
    let Diff::Find(diff) = compare(before.as_bytes(), after.as_bytes(), ".fdb.txt") else { panic!() };
    let counts = [
        (Change::Slower, 2),
        (Change::Faster, 1),
        (Change::Tied, 2),
        (Change::New, 1),
        (Change::Gone, 1),
        (Change::Untimed, 1),
    ];
    assert_eq!(diff.counts, counts.into());
    assert_eq!((diff.switched, diff.regressions), (2, 1));
    let shown: Vec<_> = diff.keys.iter().map(|key| (key.key.clone(), key.change, key.switched)).collect();
    let expected = [
        (4, Change::Slower, false),
        (3, Change::Slower, false),
        (8, Change::Tied, true),
        (1, Change::Faster, true),
        (5, Change::Gone, false),
        (6, Change::Untimed, false),
        (7, Change::New, false),
    ];
    assert_eq!(shown, expected.map(|(batch, change, switched)| (batch_key(batch), change, switched)));
    // 0.5, 1.04, 1.08, 2 and 1 times the time.
    let mean = (0.5_f64 * 1.04 * 1.08 * 2.0).powf(-0.2);
    assert!((diff.mean_speedup.unwrap() - mean).abs() < 1e-6);
}

#[test]
fn the_noise_band_is_as_wide_both_ways() {
    let at = |before: &str, after: &str| {
        let (before, after) = (finds(&[(1, before)]), finds(&[(1, after)]));
        let Diff::Find(diff) = compare(before.as_bytes(), after.as_bytes(), ".fdb.txt") else { panic!() };
        *diff.counts.keys().next().unwrap()
    };
    for (a, b, slower, faster) in
        [("A:1", "A:1.049", Change::Tied, Change::Tied), ("A:1", "A:1.051", Change::Slower, Change::Faster)]
    {
        assert_eq!((at(a, b), at(b, a)), (slower, faster), "{a} {b}");
    }
}

#[test]
fn perf_dbs_by_their_params_in_whatever_form() {
    let before = format!("{PERF_KEY}=A:1;B:1;C:1\n");
    let after = format!("{PERF_KEY}=A:1;B:2;D:1\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    PerfDb::parse_text("test", after.as_bytes()).unwrap().write_sqlite(file.path()).unwrap();
    let after = std::fs::read(file.path()).unwrap();
    let Diff::Perf(diff) = compare(before.as_bytes(), &after, "") else { panic!() };
    assert_eq!((diff.same, diff.changed, diff.new, diff.gone), (1, 1, 1, 1));
    let shown: Vec<_> = diff
        .rows
        .iter()
        .map(|row| (row.row.rsplit(' ').next().unwrap(), row.before.as_deref(), row.after.as_deref()))
        .collect();
    assert_eq!(shown, [("B", Some("1"), Some("2")), ("C", Some("1"), None), ("D", None, Some("1"))]);
}

#[test]
fn kernel_dbs_by_hashes() {
    let file = |rows: &[(&str, u8)]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = KernelDbWriter::create(file.path()).unwrap();
        for (name, code) in rows {
            let name = KernelName { name: (*name).to_string(), args: String::new() };
            writer.add(&KernelRow::new(name, &[*code; 100]).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        std::fs::read(file.path()).unwrap()
    };
    let (before, after) = (file(&[("a", 1), ("b", 1), ("c", 1)]), file(&[("a", 1), ("b", 2), ("d", 1)]));
    let Diff::Kernel(diff) = compare(&before, &after, ".kdb") else { panic!() };
    assert_eq!((diff.same, diff.changed, diff.new, diff.gone), (1, 1, 1, 1));
    assert_eq!(diff.rows.iter().map(|row| row.row.as_str()).collect::<Vec<_>>(), ["b", "c", "d"]);
}

#[test]
fn two_kinds_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("a.fdb.txt"), folder.path().join("a.db.txt"));
    std::fs::write(&before, finds(&[(1, "A:1")])).unwrap();
    std::fs::write(&after, format!("{PERF_KEY}=A:1\n")).unwrap();
    let request = DiffRequest { before, after, noise: 0.05, threshold: 0.1 };
    assert!(diff(&request, &|_| {}).unwrap_err().to_string().ends_with("found a perf db, expected a find db"));
}

#[test]
fn shares_are_percents_or_fractions() {
    for (text, share) in [("5%", 0.05), ("0.05", 0.05), ("12.5 %", 0.125), ("0", 0.0)] {
        assert_eq!(text.parse(), Ok(Share(share)), "{text}");
    }
    for text in ["", "%", "-1%", "nan", "5 percent", "inf"] {
        assert!(text.parse::<Share>().is_err(), "{text}");
    }
}
