use bluefin_miopen::db::kernel_db::{KernelDb, KernelDbWriter, KernelRow};

use super::*;
use crate::db::convert;

const KEY: &str = "1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B";
const PERF_KEY: &str = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
const GEMM: &str = "miopenConvolutionBwdDataAlgoGEMM";

/// The key for another batch.
fn other(key: &str) -> String {
    key.replace("-16-", "-17-").replace("x16x", "x17x")
}

fn find(key: &str, entries: &[(&str, &str)]) -> String {
    let entries: Vec<_> = entries.iter().map(|(solver, time)| format!("{solver}:{time},0,{GEMM}")).collect();
    format!("{key}={}\n", entries.join(";"))
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// What merging texts of one ending gives.
fn merged(policy: Policy, ending: &str, texts: &[String], times: &[String]) -> Result<String, String> {
    let folder = Folder::new();
    let write = |prefix: &str, ending: &str, texts: &[String]| {
        texts.iter().zip(0..).map(|(text, i)| folder.file(&format!("{prefix}{i}{ending}"), text)).collect()
    };
    let request = MergeRequest {
        policy,
        files: write("in", ending, texts),
        times: write("times", ".fdb.txt", times),
        out: folder.path(&format!("out{ending}")),
    };
    let report = merge(&request, &|_| {}).map_err(|error| error.to_string())?;
    assert_eq!(report.left_out.total, 0);
    Ok(std::fs::read_to_string(report.written.path).unwrap())
}

#[test]
fn policies_for_find_dbs() {
    let first = find(KEY, &[("A", "1"), ("B", "2")]);
    let second = find(KEY, &[("B", "0.5"), ("A", "3")]) + find(&other(KEY), &[("C", "1")]).as_str();
    let both = [first.clone(), second];
    let new = find(&other(KEY), &[("C", "1")]);
    for (policy, expected) in [
        (Policy::Newest, find(KEY, &[("B", "0.5"), ("A", "3")]) + new.as_str()),
        (Policy::Fastest, find(KEY, &[("B", "0.5"), ("A", "1")]) + new.as_str()),
        (Policy::Replace, find(KEY, &[("B", "0.5"), ("A", "3")]) + new.as_str()),
        (Policy::KeepKeys, find(KEY, &[("B", "0.5"), ("A", "3")])),
    ] {
        assert_eq!(merged(policy, ".fdb.txt", &both, &[]).unwrap(), expected, "{policy}");
        // A file with itself is that file, whatever the order of its entries.
        let odd = find(KEY, &[("B", "2"), ("A", "1")]);
        assert_eq!(merged(policy, ".fdb.txt", &[odd.clone(), odd.clone()], &[]).unwrap(), odd, "{policy}");
    }
    let subset = find(KEY, &[("B", "9")]);
    let of = |policy| merged(policy, ".fdb.txt", &[first.clone(), subset.clone()], &[]).unwrap();
    assert_eq!(of(Policy::Replace), subset);
    assert_eq!(of(Policy::Newest), find(KEY, &[("A", "1"), ("B", "9")]));
    assert_eq!(of(Policy::Fastest), first);
}

#[test]
fn what_was_not_measured_is_not_fastest() {
    let (timed, zero) = (find(KEY, &[("A", "1")]), find(KEY, &[("A", "0")]));
    for files in [[timed.clone(), zero.clone()], [zero, timed.clone()]] {
        assert_eq!(merged(Policy::Fastest, ".fdb.txt", &files, &[]).unwrap(), timed);
    }
}

#[test]
fn policies_for_perf_dbs() {
    let first = format!("{PERF_KEY}=A:1;B:1\n");
    let second = format!("{PERF_KEY}=B:2;C:2\n{}=A:2\n", other(PERF_KEY));
    let new = format!("{}=A:2\n", other(PERF_KEY));
    let both = [first, second];
    for (policy, expected) in [
        (Policy::Newest, format!("{PERF_KEY}=A:1;B:2;C:2\n{new}")),
        (Policy::Replace, format!("{PERF_KEY}=B:2;C:2\n{new}")),
        (Policy::KeepKeys, format!("{PERF_KEY}=A:1;B:2;C:2\n")),
    ] {
        assert_eq!(merged(policy, ".db.txt", &both, &[]).unwrap(), expected, "{policy}");
    }
    let error = merged(Policy::Fastest, ".db.txt", &both, &[]).unwrap_err();
    assert!(error.starts_with("policy fastest: perf dbs hold no times, expected the find db of each"), "{error}");
}

#[test]
fn times_beside_perf_dbs_decide() {
    let params = [format!("{PERF_KEY}=A:1;B:1;C:1\n"), format!("{PERF_KEY}=A:2;B:2;C:2\n")];
    let times = [find(KEY, &[("A", "1"), ("B", "2")]), find(KEY, &[("A", "2"), ("B", "1"), ("C", "1")])];
    let text = merged(Policy::Fastest, ".db.txt", &params, &times).unwrap();
    assert_eq!(text, format!("{PERF_KEY}=A:1;B:2;C:2\n"));
    // None has a time for it: the earlier stands.
    let times = [find(KEY, &[("A", "1")]), find(KEY, &[("A", "1")])];
    let text = merged(Policy::Fastest, ".db.txt", &params, &times).unwrap();
    assert_eq!(text, params[0]);
}

fn kernels(rows: &[(&str, u8)]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = KernelDbWriter::create(file.path()).unwrap();
    for (name, code) in rows {
        let name = KernelName { name: (*name).to_string(), args: " -mcpu=gfx90a".to_string() };
        writer.add(&KernelRow::new(name, &[*code; 3000]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(file.path()).unwrap()
}

#[test]
fn policies_for_kernel_dbs() {
    let folder = Folder::new();
    let files = vec![
        folder.file("a.kdb", kernels(&[("b.s.o", 1), ("a.s.o", 1)])),
        folder.file("b.kdb", kernels(&[("c.s.o", 2), ("a.s.o", 2)])),
    ];
    let mut request = MergeRequest { policy: Policy::Newest, files, times: Vec::new(), out: folder.path("gfx90a.kdb") };
    for (policy, expected) in [
        (Policy::Newest, [("a.s.o", 2), ("b.s.o", 1), ("c.s.o", 2)].as_slice()),
        (Policy::Replace, &[("a.s.o", 2), ("b.s.o", 1), ("c.s.o", 2)]),
        (Policy::KeepKeys, &[("a.s.o", 2), ("b.s.o", 1)]),
    ] {
        request.policy = policy;
        assert_eq!(merge(&request, &|_| {}).unwrap().written.records, expected.len() as u64);
        assert_eq!(std::fs::read(&request.out).unwrap(), kernels(expected), "{policy}");
    }
    request.policy = Policy::Fastest;
    assert!(merge(&request, &|_| {}).unwrap_err().to_string().contains("kernel dbs hold no times"));
    // The file of one of its sources may be written over.
    request.policy = Policy::Newest;
    request.out = folder.path("a.kdb");
    merge(&request, &|_| {}).unwrap();
    assert_eq!(KernelDb::parse("test", &std::fs::read(&request.out).unwrap()).unwrap().rows.len(), 3);
}

#[test]
fn files_of_two_kinds_do_not_merge() {
    let folder = Folder::new();
    let files =
        vec![folder.file("a.fdb.txt", find(KEY, &[("A", "1")])), folder.file("a.db.txt", format!("{PERF_KEY}=A:1\n"))];
    let mut request =
        MergeRequest { policy: Policy::Newest, files, times: Vec::new(), out: folder.path("out.fdb.txt") };
    let error = merge(&request, &|_| {}).unwrap_err().to_string();
    assert!(error.ends_with("a.db.txt: found a perf db, expected a find db"), "{error}");
    request.out = folder.path("out.txt");
    let error = merge(&request, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("out.txt: found out.txt, expected a name that ends in .fdb.txt"), "{error}");
    assert!(!request.out.exists());
}

#[test]
fn what_miopen_does_not_use_is_left_out_and_told() {
    let folder = Folder::new();
    let legacy = "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F";
    let text = format!(
        "{}{}{KEY}=B:1,0,{GEMM}\nnothing\n{legacy}=A:1,0,miopenConvolutionFwdAlgoGEMM\n",
        find(KEY, &[("A", "1")]),
        find(&other(KEY), &[("A", "1"), ("ConvX<3, 4>", "2")])
    );
    let short = format!("{}=A:1,0,{GEMM};B:2\n", KEY.replace("-16-", "-18-"));
    let text = [text, short].concat();
    let input = folder.file("in.fdb.txt", text);
    let report = convert(&input, &folder.path("out.fdb.txt"), &|_| {}).unwrap();
    assert_eq!(report.left_out.told.len(), 5, "{:?}", report.left_out);
    assert_eq!(report.left_out.total, 5);
    let written = std::fs::read_to_string(report.written.path).unwrap();
    let expected = [KEY.to_string(), other(KEY), KEY.replace("-16-", "-18-")].map(|key| find(&key, &[("A", "1")]));
    assert_eq!(written, expected.concat());

    let input = folder.file("in.db.txt", format!("{PERF_KEY}=A:1,2\r\n"));
    let report = convert(&input, &folder.path("out.db.txt"), &|_| {}).unwrap();
    assert_eq!(std::fs::read_to_string(report.written.path).unwrap(), format!("{PERF_KEY}=A:1,2\n"));
}
