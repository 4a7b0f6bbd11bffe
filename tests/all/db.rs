//! `bluefin db` as a person or a script meets it, on the databases that MIOpen ships.

use std::path::Path;
use std::process::{Command, Output};

use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_test_support::{data, data_path};

const KEY: &str = "1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B";
const COMMAND: &str = "MIOpenDriver convfp16 -n 16 -c 512 -H 13 -W 13 -k 1000 -y 1 -x 1 -F 2";
const GEMM: &str = "miopenConvolutionBwdDataAlgoGEMM";

fn db(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bluefin")).arg("db").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a verb that must end with `code`. Returns its output.
fn ends(code: i32, arguments: &[&str]) -> String {
    let output = db(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = db(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// The path of a shipped database, packed as it is.
fn shipped(name: &str) -> String {
    data_path(&format!("miopen/{name}")).display().to_string()
}

#[test]
fn check_says_what_is_wrong_and_where() {
    let folder = Folder::new();
    let good = folder.file("gfx90a68.HIP.fdb.txt", &format!("{KEY}=GemmBwd1x1_stride1:0.5,0,{GEMM}\n"));
    let bad = folder.file("gfx90a6e.HIP.fdb.txt", &format!("nothing\n{KEY}=ConvNoSuch:0.5,0,{GEMM}\n"));
    assert_eq!(ends(0, &["check", &good]), format!("{good}: find db, 1 record, 0 findings\n"));
    assert_eq!(
        ends(1, &["check", &good, &bad]),
        format!(
            "{good}: find db, 1 record, 0 findings\n\
             {bad}:1: warning no-key: found \"nothing\", expected key=entries; skipped\n\
             {bad}:2: warning unknown-solver: solver: found ConvNoSuch, expected one of MIOpen's\n\
             {bad}: find db, 1 record, 2 findings\n"
        )
    );
    assert!(ends(0, &["check", &bad, "--allow", "no-key,unknown-solver"]).ends_with(" 1 record, 0 findings\n"));
    let report = json(&["check", &bad]);
    assert_eq!(report["files"][0]["findings"][1]["rule"], "unknown-solver");
    assert_eq!(report["files"][0]["counts"]["no-key"], 1);
    let own = folder.file("solvers.csv", "id,name,primitive,algo,tunable,dynamic\n1,ConvNoSuch,Convolution,GEMM,0,0\n");
    ends(0, &["check", &bad, "--allow", "no-key", "--solvers", &own]);
    ends(1, &["check", &folder.path("missing.db")]);
    ends(2, &["check"]);
    ends(2, &["check", &bad, "--allow", "no-rule"]);
    assert!(ends(0, &["check", "--rules"]).lines().count() > 40);
}

#[test]
fn usage_is_wrong_or_files_are() {
    let folder = Folder::new();
    let find = folder.file("a.HIP.fdb.txt", &format!("{KEY}=GemmBwd1x1_stride1:0.5,0,{GEMM}\n"));
    let out = folder.path("out.db");
    ends(1, &["convert", &find, &out]);
    ends(2, &["convert", &find]);
    ends(2, &["convert", &find, &out, "-o", &out]);
    for flag in ["-o", "--out", "--output"] {
        let out = folder.path(&format!("{flag}.HIP.fdb.txt"));
        ends(0, &["convert", &find, flag, &out]);
        ends(0, &["merge", &find, flag, &out, "--policy", "newest"]);
    }
    ends(2, &["merge", &find, "-o", &out]);
    ends(2, &["merge", &find, "-o", &out, "--policy", "best"]);
    ends(2, &["merge", &find, "-o", &out, "--policy", "newest", "--times", &find]);
    ends(2, &["diff", &find]);
    ends(2, &["diff", &find, &find, "--noise", "much"]);
    ends(2, &["query", "conv -n", "--db", &find]);
    ends(2, &["query", COMMAND]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn diff_ends_with_1_on_a_regression() {
    let folder = Folder::new();
    let of = |time: &str| format!("{KEY}=GemmBwd1x1_stride1:{time},0,{GEMM}\n");
    let [before, same, slower] = [("a", "1"), ("b", "1.07"), ("c", "1.2")]
        .map(|(name, time)| folder.file(&format!("{name}.HIP.fdb.txt"), &of(time)));
    let empty = folder.file("d.HIP.fdb.txt", "");
    ends(0, &["diff", &before, &same]);
    ends(1, &["diff", &before, &same, "--threshold", "6%"]);
    ends(0, &["diff", &before, &slower, "--threshold", "25%"]);
    ends(0, &["diff", &slower, &before]);
    let output = ends(1, &["diff", &before, &slower]);
    let line = format!("slower x1.200: {KEY}: GemmBwd1x1_stride1 1 ms -> GemmBwd1x1_stride1 1.2 ms");
    assert!(output.contains(&line), "{output}");
    assert_eq!(json(&["diff", &before, &slower])["counts"]["slower"], 1);
    ends(0, &["diff", &before, &empty]);
    ends(1, &["diff", &before, &empty, "--deny-gone"]);
}

#[test]
fn query_answers_for_every_direction() {
    let folder = Folder::new();
    let find = folder.file(
        "gfx90a68.HIP.fdb.txt",
        &format!("{KEY}=ConvAsm1x1U:0.7,8,miopenConvolutionBwdDataAlgoDirect;GemmBwd1x1_stride1:0.5,0,{GEMM}\n"),
    );
    let perf_key = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
    let perf = folder.file("gfx90a68.db.txt", &format!("{perf_key}=ConvAsm1x1U:1,2,3\n"));
    let expected = format!(
        "{KEY}\n  perf-db key {perf_key}\n  find {find}:1: GemmBwd1x1_stride1 0.5 ms, 0 bytes of workspace, {GEMM}\n  \
         find {find}:1: ConvAsm1x1U 0.7 ms, 8 bytes of workspace, miopenConvolutionBwdDataAlgoDirect\n  \
         perf {perf}:1: ConvAsm1x1U 1,2,3\n"
    );
    assert_eq!(ends(0, &["query", COMMAND, "--db", &find, &perf]), expected);
    assert_eq!(ends(0, &["query", KEY, "--db", &format!("{find},{perf}")]), expected);
    let all = json(&["query", COMMAND.strip_suffix(" -F 2").unwrap(), "--db", &find]);
    let found: Vec<usize> = all.as_array().unwrap().iter().map(|one| one["finds"].as_array().unwrap().len()).collect();
    assert_eq!(found, [0, 2, 0]);
    assert!(ends(1, &["query", &COMMAND.replace("-F 2", "-F 1"), "--db", &find]).ends_with("  nothing\n"));
}

/// Converts, and merges with itself by every policy.
fn rewritten(input: &Path, out: &str, policies: &[&str], check: impl Fn(&Path)) {
    let folder = Folder::new();
    let (input, out) = (input.display().to_string(), folder.path(out));
    ends(0, &["convert", &input, &out]);
    check(Path::new(&out));
    for policy in policies {
        ends(0, &["merge", &input, &input, "--policy", policy, "-o", &out]);
        check(Path::new(&out));
    }
}

#[test]
fn a_shipped_find_db_of_version_2_stays_byte_for_byte() {
    let bytes = data("miopen/gfx942130.HIP.fdb.txt");
    let folder = Folder::new();
    let input = folder.path("in.HIP.fdb.txt");
    std::fs::write(&input, &bytes).unwrap();
    rewritten(Path::new(&input), "gfx942130.HIP.fdb.txt", &["newest", "fastest", "replace", "keep-keys"], |out| {
        assert!(std::fs::read(out).unwrap() == bytes, "differs from what was read");
    });
    let diff = json(&["diff", &shipped("gfx942130.HIP.fdb.txt.bz2"), &input]);
    assert_eq!(diff["counts"], serde_json::json!({ "tied": 9600 }));
    assert_eq!(diff["keys"].as_array().unwrap().len(), 0);
}

#[test]
fn a_shipped_find_db_of_version_1_says_the_same_in_version_2() {
    let bytes = data("miopen/gfx906_60.HIP.fdb.txt");
    let records = FindDb::parse("shipped", &bytes).unwrap().records;
    let folder = Folder::new();
    let (input, out) = (folder.path("in.HIP.fdb.txt"), folder.path("gfx906_60.HIP.fdb.txt"));
    std::fs::write(&input, bytes).unwrap();
    ends(0, &["convert", &input, &out]);
    let written = FindDb::parse("written", &std::fs::read(&out).unwrap()).unwrap();
    assert!(written.records == records && written.legacy_lines == 0);
}

#[test]
fn a_shipped_perf_db_survives_sqlite_to_text_to_sqlite() {
    let folder = Folder::new();
    let original = folder.path("original.db");
    std::fs::write(&original, data("miopen/gfx906_60.db")).unwrap();
    let records = PerfDb::read_sqlite(Path::new(&original)).unwrap().records;
    let (text, sqlite) = (folder.path("gfx906_60.db.txt"), folder.path("gfx906_60.db"));
    ends(0, &["convert", &original, &text]);
    ends(0, &["convert", &text, &sqlite]);
    assert!(PerfDb::read_sqlite(Path::new(&sqlite)).unwrap().records == records);
}

#[test]
fn a_smaller_perf_db_stays_the_same_file_by_every_policy() {
    let packed = shipped("gfx942130.db.bz2");
    let folder = Folder::new();
    let input = folder.path("gfx942130.db.txt");
    ends(0, &["convert", &packed, &input]);
    let bytes = std::fs::read(&input).unwrap();
    rewritten(Path::new(&input), "gfx942130.db.txt", &["newest", "replace", "keep-keys"], |out| {
        assert!(std::fs::read(out).unwrap() == bytes, "differs from what was read");
    });
    let diff = json(&["diff", &packed, &input]);
    assert_eq!((&diff["same"], diff["rows"].as_array().unwrap().len()), (&serde_json::json!(21_058), 0));
}

/// Old and new databases that are too small to be shipped again.
#[test]
fn shipped_small_find_dbs_compare() {
    let diff = json(&["diff", &shipped("old_gfx90a68.HIP.fdb.txt"), &shipped("usr_gfx90a68.HIP.fdb.txt")]);
    assert_eq!(diff["counts"], serde_json::json!({ "slower": 2, "faster": 1, "new": 1, "gone": 1 }));
    assert_eq!(diff["switched"], 3);
}

/// Of batch norms MIOpen has a perf db, as text alone; of fusions a find db, whose keys are their own.
#[test]
fn batch_norms_and_fusions_are_kept_as_convolutions_are() {
    let folder = Folder::new();
    let key = "2x256x1024x14x14x1x0x0x1xNHWCxBwdxFP16x1";
    let row = |solver: &str, params: &str| format!("{key}={solver}:{params}\n");
    let norms = folder.file("batchnorm_gfx90a68.db.txt", &row("BnCKBwdBackward", "Kernel<1>"));
    let newer =
        folder.file("batchnorm_gfx90a6e.db.txt", &format!("{}nonsense=A:1\n", row("BnCKBwdBackward", "Kernel<2>")));
    assert_eq!(ends(0, &["check", &norms]), format!("{norms}: perf db, 1 record, 0 findings\n"));
    assert!(ends(1, &["check", &newer]).contains(":2: warning key: "));
    let out = folder.path("batchnorm_gfx942130.db.txt");
    ends(0, &["convert", &norms, &out]);
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&norms).unwrap());
    ends(0, &["merge", &norms, &newer, "--policy", "newest", "-o", &out]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), row("BnCKBwdBackward", "Kernel<2>"));
    assert_eq!(json(&["diff", &norms, &newer])["changed"], 1);
    for (out, policy) in
        [("gfx90a68.db.txt", "newest"), ("batchnorm_gfx90a68.db", "newest"), ("batchnorm_gfx942130.db.txt", "fastest")]
    {
        ends(1, &["merge", &norms, &newer, "--policy", policy, "-o", &folder.path(out)]);
    }
    let perf = folder
        .file("gfx90a68.db.txt", "2x64x56x56x1x1x1x1x64x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm3x3U:1,2,3\n");
    ends(1, &["convert", &perf, &out]);
    assert!(ends(1, &["diff", &perf, &norms]).is_empty());

    let command = "MIOpenDriver bnormfp16 -n 256 -c 1024 -H 14 -W 14 -m 1 --forw 0 -b 1 -s 1 -L NHWC";
    for asked in [command, key] {
        let found = ends(0, &["query", asked, "--db", &norms]);
        assert!(found.contains(key) && found.contains(":1: BnCKBwdBackward Kernel<1>"), "{found}");
    }

    // Whatever the algorithm: MIOpen does not look at it.
    let fusion =
        "some-plan=BnFwdInferActivationFused:0.7,0,fusion;ConvBiasActivAsm1x1U:0.9,0,miopenConvolutionFwdAlgoDirect\n";
    let finds = folder.file("gfx90a68.HIP.fusion.fdb.txt", fusion);
    let found = ends(0, &["check", &finds]);
    assert!(found.contains("note unchecked") && found.ends_with(" 1 record, 1 finding\n"), "{found}");
    let found = ends(0, &["query", "some-plan", "--db", &finds]);
    assert!(found.contains(":1: BnFwdInferActivationFused 0.7 ms"), "{found}");
    ends(2, &["query", "some-plan", "--db", &norms]);
    ends(1, &["convert", &finds, &folder.path("gfx90a68.HIP.fdb.txt")]);
    for arguments in [vec!["convert", &finds], vec!["merge", &finds, &finds, "--policy", "fastest"]] {
        let out = folder.path("gfx942130.HIP.fusion.fdb.txt");
        ends(0, &[arguments, vec!["-o", &out]].concat());
        assert_eq!(std::fs::read_to_string(&out).unwrap(), fusion);
    }
}

/// What MIOpen does not use, or a file can not hold, is left out and named, and takes nothing with it.
#[test]
fn one_bad_record_is_left_out() {
    let folder = Folder::new();
    let good = format!("{KEY}=GemmBwd1x1_stride1:0.5,0,{GEMM}\n");
    let perf_key = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
    let params = format!("{perf_key}=ConvAsm1x1U:1,8,1,16,1,2,2,2\n");
    let none = format!("{perf_key}=ConvAsm1x1U:;ConvAsm3x3U:1,2,3\n");
    for (name, input, output, told) in [
        ("a.HIP.fdb.txt", format!("{good}1-1-1;1=GemmBwdRest:1,0,{GEMM}\n"), &good, "1-1-1;1"),
        ("a.HIP.fdb.txt", format!("{KEY}\r=GemmBwdRest:1,0,{GEMM}\n{good}"), &good, "-B\\r"),
        ("a.HIP.fdb.txt", good.replace('\n', &format!(";Gemm=X:1,0,{GEMM}\n")), &good, "Gemm=X"),
        ("a.db.txt", params.replace('\n', ";ConvAsm3x3U:1,2\r,3;Conv=X:1\n"), &params, "Conv=X"),
        // MIOpen takes params that are empty.
        ("a.db.txt", none.clone(), &none, ""),
    ] {
        let (file, out) = (folder.file(name, &input), folder.path(&format!("out.{name}")));
        let policy = ["--policy", "newest", "-o", &out];
        for arguments in [vec!["convert", &file, &out], [vec!["merge", &file, &file], policy.to_vec()].concat()] {
            let run = db(&arguments);
            let error = text(&run.stderr);
            assert_eq!(run.status.code(), Some(0), "{error}");
            assert_eq!(&std::fs::read_to_string(&out).unwrap(), output);
            assert!(error.contains(told) && error.is_empty() == told.is_empty(), "{arguments:?}: {error}");
        }
    }
}
