use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_test_support::data_path;

use super::*;

const KEY: &str = "1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B";
const PERF_KEY: &str = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
const GEMM: &str = "miopenConvolutionBwdDataAlgoGEMM";
const WINOGRAD: &str = "miopenConvolutionBwdDataAlgoWinograd";

fn request(files: Vec<PathBuf>) -> CheckRequest {
    CheckRequest { files, solvers: Solvers::shipped().clone(), allow: BTreeSet::new(), deny: BTreeSet::new() }
}

fn check_paths(files: Vec<PathBuf>) -> CheckReport {
    check(&request(files), &|_| {})
}

/// Line and rule of every finding of the files, in their order.
fn found(files: &[(&str, &[u8])]) -> Vec<(u64, &'static str)> {
    let folder = tempfile::tempdir().unwrap();
    let paths = files.iter().map(|(name, bytes)| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    });
    let report = check_paths(paths.collect());
    let findings = report.files.iter().flat_map(|file| &file.findings);
    findings.map(|finding| (finding.line, finding.rule.name())).collect()
}

fn sqlite(text: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    PerfDb::parse_text("test", text.as_bytes()).unwrap().write_sqlite(file.path()).unwrap();
    std::fs::read(file.path()).unwrap()
}

#[test]
fn a_good_find_db_has_no_findings() {
    let text = format!("{KEY}=ConvMPBidirectWinograd<2-3>:0.5,0,{WINOGRAD};GemmBwd1x1_stride1:0.7,8,{GEMM}\n");
    assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", text.as_bytes())]), []);
}

#[test]
fn rules_of_find_dbs() {
    for (line, rules) in [
        (format!("{KEY}=ConvNoSuch:0.5,0,{GEMM}"), vec!["unknown-solver"]),
        (format!("{KEY}=ConvMPBidirectWinograd<2, 3>:0.5,0,{WINOGRAD}"), vec!["space", "unknown-solver"]),
        (format!("{KEY}=GemmBwd1x1_stride1:0.5,0,{WINOGRAD}"), vec!["solver-algorithm"]),
        (format!("{KEY}=GemmBwd1x1_stride1:0.5,0,miopenConvolutionFwdAlgoGEMM"), vec!["algorithm"]),
        (format!("{KEY}=GemmBwd1x1_stride1:0,0,{GEMM}"), vec!["time"]),
        (format!("{KEY}=GemmBwd1x1_stride1:0.5"), vec!["missing-fields"]),
        (format!("{KEY}=GemmBwd1x1_stride1:0.5,0,{GEMM};GemmBwdRest:0.4,0,{GEMM}"), vec!["order"]),
        (format!("{}=GemmBwd1x1_stride1:0.5,0,{GEMM}", KEY.replace("512-13", "512-14")), vec!["problem"]),
        (format!("0{KEY}=GemmBwd1x1_stride1:0.5,0,{GEMM}"), vec!["key"]),
        ("# made by hand".to_string(), vec!["no-key"]),
    ] {
        // A line in front that says what the file is.
        let text = format!("{}=GemmBwd1x1_stride1:1,0,{GEMM}\n{line}\n", KEY.replace("-16-", "-17-"));
        let rules: Vec<_> = rules.into_iter().map(|rule| (2, rule)).collect();
        assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", text.as_bytes())]), rules, "{line}");
    }
    let old = format!("{KEY}={GEMM}:GemmBwd1x1_stride1,0.5,0,{GEMM},<unused>\n");
    assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", old.as_bytes())]), [(0, "version-1")]);
}

#[test]
fn rules_of_perf_dbs_in_both_forms() {
    for (line, rules) in [
        (format!("{PERF_KEY}=ConvAsm1x1U:1,8,1,16,1,2,2,2"), vec![]),
        (format!("{PERF_KEY}=GemmBwdRest:1"), vec!["not-tunable"]),
        (format!("{PERF_KEY}=ConvNoSuch:1"), vec!["unknown-solver"]),
        (
            format!("{}=ConvAsm1x1U:1,8,1,16,1,2,2,2", PERF_KEY.replace("x16x0x0x0x1x1x0", "x16x0x0x0x1x1x1")),
            vec!["perf-key"],
        ),
        (format!("{}=ConvAsm1x1U:1,8,1,16,1,2,2,2", PERF_KEY.replacen("2x", "3x", 1)), vec!["perf-key"]),
        (format!("{}=ConvAsm1x1U:1,8,1,16,1,2,2,2", PERF_KEY.replace("x0x1xNCHW", "x1x1xNCHW")), vec!["perf-key"]),
    ] {
        let rules: Vec<_> = rules.into_iter().map(|rule| (1, rule)).collect();
        assert_eq!(found(&[("gfx90a68.db.txt", line.as_bytes())]), rules, "{line}");
        assert_eq!(found(&[("gfx90a68.db", &sqlite(&line))]), rules, "{line}");
    }
}

/// What a solver reads, refuses and misreads of its params.
#[test]
fn params_are_those_of_their_solver() {
    for (params, rules) in [
        ("ConvAsm3x3U:6,7,8", vec![]),
        ("ConvAsm3x3U:6", vec![(1, "params")]),
        ("ConvAsm3x3U:", vec![(1, "params")]),
        ("ConvAsm3x3U:6,x,8", vec![(1, "number")]),
        ("ConvHipImplicitGemmFwdXdlops:", vec![]),
    ] {
        let line = format!("{PERF_KEY}={params}\n");
        assert_eq!(found(&[("gfx90a68.db.txt", line.as_bytes())]), rules, "{params}");
        assert_eq!(found(&[("gfx90a68.db", &sqlite(&line))]), rules, "{params}");
    }
}

/// A file from an editor with other line ends is read as it is meant.
#[test]
fn line_ends_of_two_characters_do_no_harm() {
    let find = format!("{KEY}=GemmBwd1x1_stride1:0.5,8,{GEMM}\r\n");
    let perf = format!("{PERF_KEY}=ConvAsm3x3U:6,7,8\r\n");
    assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", find.as_bytes())]), []);
    assert_eq!(found(&[("gfx90a68.db.txt", perf.as_bytes())]), []);
    // But where the params are the name of a kernel, it is another name.
    let perf = format!("{PERF_KEY}=ConvHipImplicitGemmFwdXdlops:Kernel<1>\r\n");
    assert_eq!(found(&[("gfx90a68.db.txt", perf.as_bytes())]), [(1, "space")]);
}

/// An output that another library's rounding gives is asked for as well.
#[test]
fn outputs_that_applications_pass_are_problems() {
    let old = "128-10-10-3x3-256-5-5-100-0x0-2x2-1x1-0-NCHW-FP32-F";
    let forward = "miopenConvolutionFwdAlgoGEMM";
    let of = |key: &str, algorithm: &str| {
        let solver = if algorithm == forward { "GemmFwdRest" } else { "GemmBwdRest" };
        found(&[("gfx1030_36.HIP.fdb.txt", format!("{key}={solver}:1,0,{algorithm}\n").as_bytes())])
    };
    assert_eq!(of(old, forward), []);
    assert_eq!(of("256-5-5-3x3-128-10-10-100-0x0-2x2-1x1-0-NCHW-FP32-B", GEMM), []);
    assert_eq!(of(&old.replace("-5-5-", "-6-5-"), forward), [(1, "problem")]);
    assert_eq!(of(&old.replace("-5-5-", "-4-3-"), forward), [(1, "problem")]);
    assert_eq!(of(&format!("{old}_g3"), forward), [(1, "problem")]);
}

/// What bluefin's own kernels make is told once a file, and not at all for devices that MIOpen does not run on.
#[test]
fn own_solvers_are_told_once() {
    let finds: String = (1..=30)
        .map(|n| {
            format!(
                "{}=BluefinConvBwdGpuDirect:0.5,0,miopenConvolutionBwdDataAlgoDirect\n",
                KEY.replace("-16-", &format!("-{n}-"))
            )
        })
        .collect();
    let perf = format!("{PERF_KEY}=BluefinConvBwdGpuDirect:1\n");
    let both = |find: &str, db: &str| found(&[(find, finds.as_bytes()), (db, perf.as_bytes())]);
    assert_eq!(both("gfx90a68.HIP.fdb.txt", "gfx90a68.db.txt"), [(0, "own-solver"), (0, "own-solver")]);
    assert_eq!(both("host.HOST.fdb.txt", "host.db.txt"), [(0, "own-target"), (0, "own-target")]);
}

#[test]
fn winners_need_their_params() {
    let finds =
        format!("{KEY}=ConvAsm1x1U:0.5,0,miopenConvolutionBwdDataAlgoDirect;ConvBinWinogradRxSf2x3:0.7,0,{WINOGRAD}\n");
    let params = |solver: &str| format!("{PERF_KEY}={solver}:1,8,1,16,1,2,2,2\n");
    let pair = |name: &str, solver: &str| {
        found(&[("gfx90a68.HIP.fdb.txt", finds.as_bytes()), (name, params(solver).as_bytes())])
    };
    assert_eq!(pair("gfx90a68.db.txt", "ConvAsm1x1U"), []);
    assert_eq!(pair("gfx90a68.db.txt", "ConvBinWinogradRxSf2x3"), [(1, "no-params")]);
    // Nothing is faster than 0, and what MIOpen does not have wins nothing.
    let first = format!(
        "{KEY}=ConvNoSuch:0,0,{WINOGRAD};ConvAsm1x1U:0.5,0,miopenConvolutionBwdDataAlgoDirect;ConvBinWinogradRxSf2x3:0.0,0,{WINOGRAD}\n"
    );
    let files = [("gfx90a68.HIP.fdb.txt", first.as_bytes()), ("gfx90a68.db.txt", params("ConvAsm1x1U").as_bytes())]
        .map(|(name, bytes)| (name, bytes.to_vec()));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    assert!(found(&files).contains(&(1, "no-params")));
    // A perf db of another device has nothing to do with it.
    assert_eq!(pair("gfx90a6e.db.txt", "ConvBinWinogradRxSf2x3"), []);
    assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", finds.as_bytes())]), []);
}

#[test]
fn names_and_kinds() {
    let find = format!("{KEY}=GemmBwd1x1_stride1:0.5,8,{GEMM}\n");
    let perf = format!("{PERF_KEY}=ConvAsm1x1U:1,8,1,16,1,2,2,2\n");
    assert_eq!(found(&[("gfx942_304.HIP.fdb.txt", find.as_bytes())]), [(0, "file-name")]);
    assert_eq!(found(&[("notes", find.as_bytes())]), [(0, "file-name")]);
    assert_eq!(found(&[("host.HOST.fdb.txt", find.as_bytes())]), [(0, "own-target")]);
    assert_eq!(found(&[("gfx90a68.HIP.fdb.txt", perf.as_bytes())]), [(0, "wrong-kind")]);
    assert_eq!(found(&[("gfx90a68.db.txt", &sqlite(&perf))]), [(0, "wrong-kind")]);
    assert_eq!(found(&[("gfx90a68.db", b"")]), [(0, "unreadable")]);
    assert_eq!(found(&[("gfx90a68.db", b"SQLite format 3\0 and no more")]), [(0, "unreadable")]);
    assert_eq!(found(&[("gfx90a68.HIP.fusion.fdb.txt", format!("any-key{find}").as_bytes())]), [(0, "unchecked")]);
    let mut log = sqlite(&perf);
    log[18..20].fill(2);
    assert_eq!(found(&[("gfx90a68.db", &log)]), [(0, "write-ahead-log")]);
    assert_eq!(found(&[("gfx90a68_1.1.0.udb", &log)]), []);
}

fn kernels(change: impl Fn(&mut KernelRow)) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = KernelDbWriter::create(file.path()).unwrap();
    for code in 0..8_u8 {
        let name = KernelName { name: "conv1x1u.s.o".to_string(), args: format!(" -DX={code} -mcpu=gfx90a") };
        let mut row = KernelRow::new(name, &vec![code; 5000]).unwrap();
        if code == 6 {
            change(&mut row);
        }
        writer.add(&row).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(file.path()).unwrap()
}

#[test]
fn rules_of_kernel_dbs() {
    let change = |change: fn(&mut KernelRow)| found(&[("gfx90a.kdb", &kernels(change))]);
    assert_eq!(change(|_| {}), []);
    assert_eq!(change(|row| row.hash = row.hash.to_uppercase()), [(7, "kernel-hash")]);
    assert_eq!(change(|row| row.uncompressed_size = 4999), [(7, "kernel-size")]);
    assert_eq!(change(|row| row.uncompressed_size = 0), [(7, "kernel-hash")]);
    assert_eq!(change(|row| row.blob[9] ^= 1), [(7, "kernel-size")]);
    assert_eq!(change(|row| row.kernel.args = " -DX='1' -mcpu=gfx90a".to_string()), [(7, "quote")]);
    assert_eq!(change(|row| row.kernel.args = " -mcpu=gfx908".to_string()), [(7, "mcpu")]);
    assert_eq!(change(|row| row.kernel.args = " -mcpu=gfx90a -DX=6".to_string()), [(7, "mcpu")]);
    assert_eq!(change(|row| row.kernel.args = "-DX=6 -mcpu=gfx90a".to_string()), [(7, "kernel-args")]);
    // Options that are joined have no blank in front.
    let joined = |file: &'static str, args: &'static str| {
        found(&[(
            "gfx90a.kdb",
            &kernels(|row| row.kernel = KernelName { name: file.to_string(), args: args.to_string() }),
        )])
    };
    for file in ["conv3x3.s.o", "Conv_Winograd_v21_1_3_gfx9_fp32_f3x2_stride1_group.s.o", "MIOpenConvDirGenFwd.cl.o"] {
        assert_eq!(joined(file, "-Wa,-defsym,x=1 -mcpu=gfx90a"), [], "{file}");
        assert_eq!(joined(file, " -Wa,-defsym,x=1 -mcpu=gfx90a"), [(7, "kernel-args")], "{file}");
    }
    assert_eq!(joined("conv3x3wrw.s.o", " -Wa,-defsym,x=1 -mcpu=gfx90a"), []);
    for args in ["-DMIO_BN_C=1 -mcpu=gfx90a", " -DMIO_BN_C=1 -mcpu=gfx90a"] {
        assert_eq!(joined("MIOpenBatchNormFwdTrainSpatial.cl.o", args), [], "{args}");
    }
    assert_eq!(change(|row| row.kernel.name = "conv.s".to_string()), [(7, "kernel-name")]);
    assert_eq!(change(|row| row.kernel.name = "conv.mlir.o".to_string()), [(7, "mcpu")]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gfx90a.kdb");
    std::fs::write(&path, kernels(|_| {})).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("DROP INDEX idx_kern_db").unwrap();
    let again = "INSERT INTO kern_db SELECT 99, kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size \
                 FROM kern_db WHERE id = 3";
    connection.execute_batch(again).unwrap();
    connection.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(found(&[("gfx90a.kdb", &bytes)]), [(0, "no-index"), (99, "duplicate-kernel")]);
}

#[test]
fn rules_are_allowed_and_denied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gfx90a68.HIP.fdb.txt");
    std::fs::write(&path, format!("{KEY}=ConvNoSuch:0.5,0,{GEMM};GemmBwdRest:0.4,0,{GEMM}\n")).unwrap();
    let mut request = request(vec![path]);
    request.allow.insert(Rule::UnknownSolver);
    let report = check(&request, &|_| {});
    assert!(!report.has_findings(), "{report:?}");
    request.deny.insert(Rule::Order);
    let report = check(&request, &|_| {});
    assert!(report.has_findings());
    let file = &report.files[0];
    let line = Located(file, &file.findings[0]).to_string();
    assert!(line.ends_with(".fdb.txt:1: error order: entry GemmBwdRest: found a time less than that of the entry before, expected ascending times"), "{line}");
}

#[test]
fn findings_are_kept_up_to_a_thousand_a_rule_and_counted_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gfx90a68.HIP.fdb.txt");
    let lines = (1..=3000).map(|n| format!("{}=ConvNoSuch:0.5,0,{GEMM}\n", KEY.replace("-16-", &format!("-{n}-"))));
    std::fs::write(&path, lines.chain(["nothing\n".to_string()]).collect::<String>()).unwrap();
    let report = check_paths(vec![path]);
    let file = &report.files[0];
    assert_eq!(file.counts, [(Rule::UnknownSolver, 3000), (Rule::NoKey, 1)].into());
    assert_eq!(file.findings.len(), 1001);
}

#[test]
fn no_name_of_a_rule_is_taken_twice() {
    let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    assert!(Rule::ALL.iter().all(|rule| rule.name().parse() == Ok(*rule)));
}

#[test]
fn shipped_databases_are_as_miopen_wants_them() {
    let shipped = ["miopen/gfx942130.HIP.fdb.txt.bz2", "miopen/gfx942130.db.bz2"];
    let report = check_paths(shipped.map(data_path).into());
    let [find, perf] = report.files.as_slice() else { panic!("{report:?}") };
    assert_eq!((find.records, perf.records), (9600, 21_058));
    // Not one winner without its params.
    assert_eq!(perf.counts, [(Rule::Packed, 1)].into());
    assert_eq!(find.counts, [(Rule::Packed, 1)].into());
}

#[test]
fn winners_need_a_kernel_of_theirs() {
    let direct = "miopenConvolutionBwdDataAlgoDirect";
    let finds = |solver: &str| format!("{KEY}={solver}:0.5,0,{direct}\n");
    let pair = |solver: &str, source: &'static str| {
        let kernels = kernels(|row| row.kernel.name = source.to_string());
        found(&[("gfx90a68.HIP.fdb.txt", finds(solver).as_bytes()), ("gfx90a.kdb", &kernels)])
    };
    assert_eq!(pair("ConvAsm1x1UV2", "conv1x1u_stride2.s.o"), []);
    assert_eq!(pair("ConvAsm1x1UV2", "conv1x1u.s.o"), [(1, "no-kernel")]);
    // Runs library code.
    assert_eq!(pair("ConvHipImplicitGemmFwdXdlops", "conv1x1u.s.o"), [(1, "solver-algorithm")]);
}
