use super::here::{FIND, Here, PERF};

const COVERED: &str =
    "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1";

#[test]
fn what_is_missing_is_told_with_its_weight() {
    let here = Here::new();
    here.write("db/gfx90a68.HIP.fdb.txt", FIND);
    here.write("db/gfx90a68.db.txt", PERF);
    let missing = COVERED.replace("-n 16", "-n 32");
    here.write("shapes.txt", format!("{COVERED}\n{COVERED}\n{COVERED}\n{missing}\ngemm -m 8\n"));
    let both = ["coverage", "shapes.txt", "--db", "db/gfx90a68.HIP.fdb.txt", "db/gfx90a68.db.txt", "--json"];
    let report = here.json(0, &both);
    assert_eq!(report["problems"], serde_json::json!({ "covered": 1, "of": 2, "percent": 50.0 }));
    assert_eq!(report["weighted"], serde_json::json!({ "covered": 3, "of": 4, "percent": 75.0 }));
    assert_eq!((&report["without_find"], &report["not_convolutions"]), (&1.into(), &1.into()));
    let row = &report["rows"][0];
    assert_eq!(
        (&row["solver"], &row["find"], &row["params"]),
        (&"ConvAsm1x1U".into(), &"present".into(), &"present".into())
    );
    here.json(0, &[&both[..], &["--threshold", "75%"]].concat());
    here.json(1, &[&both[..], &["--threshold", "75.1"]].concat());
    assert!(here.ends(2, &[&both[..], &["--threshold", "200%"]].concat()).contains("0% to 100%"));

    // A perf db without the params of the winner.
    here.write("other.db.txt", PERF.replace("x16x0", "x8x0"));
    let report = here.json(0, &["coverage", "shapes.txt", "--db", "db/gfx90a68.HIP.fdb.txt", "other.db.txt", "--json"]);
    assert_eq!((&report["problems"]["covered"], &report["without_params"]), (&0.into(), &1.into()));
    // No perf db: not asked for.
    let report = here.json(0, &["coverage", "shapes.txt", "--db", "db/gfx90a68.HIP.fdb.txt", "--json"]);
    assert_eq!((&report["problems"]["covered"], &report["rows"][0]["params"]), (&1.into(), &"unknown".into()));
    assert!(here.ends(2, &["coverage", "shapes.txt", "--db", "db/gfx90a68.db.txt"]).contains("no find db"));
    // What MIOpen ignores is there for nothing, and said to be.
    let own = FIND.lines().map(|line| {
        format!("{}=BluefinConvDirect:0.1,0,miopenConvolutionFwdAlgoDirect\n", line.split('=').next().unwrap())
    });
    here.write("own.HIP.fdb.txt", own.collect::<String>());
    let text = here.ends(0, &["coverage", "shapes.txt", "--db", "own.HIP.fdb.txt"]);
    assert!(text.contains("ignored: the records of 1 problem, of solvers such as BluefinConvDirect"), "{text}");
}

/// Batch norms have no find db: their perf db tells.
#[test]
fn batch_norms_are_covered_by_their_params() {
    let here = Here::new();
    let norm = |n: u32| format!("bnormfp16 -n {n} -c 64 -H 56 -W 56 -m 1 --forw 1 -b 0 -L NHWC\n");
    here.write("shapes.txt", format!("{}{}", norm(16), norm(32)));
    here.write("batchnorm_gfx90a68.db.txt", "2x16x64x56x56x1x0x0x0xNHWCxTrnxFP16x1=BnCKFwdTraining:K<1>\n");
    let report = here.json(0, &["coverage", "shapes.txt", "--db", "batchnorm_gfx90a68.db.txt", "--json"]);
    assert_eq!((&report["problems"]["covered"], &report["without_params"]), (&1.into(), &1.into()));
    // Without it they are left out.
    here.write("gfx90a68.HIP.fdb.txt", FIND);
    let report = here.json(0, &["coverage", "shapes.txt", "--db", "gfx90a68.HIP.fdb.txt", "--json"]);
    assert_eq!((&report["problems"]["of"], &report["not_convolutions"]), (&0.into(), &2.into()));
}

#[test]
fn shipped_databases_cover_what_they_cover() {
    let here = Here::new();
    let path = |name: &str| bluefin_test_support::data_path(name).display().to_string();
    let find = path("miopen/gfx906_60.HIP.fdb.txt.bz2");
    let perf = path("miopen/gfx906_60.db.bz2");
    let text = here.ends(0, &["coverage", &path("driver/resnet50.txt"), "--db", &find, &perf]);
    let summary = text.lines().find(|line| line.starts_with("covered: ")).unwrap();
    println!("{summary}");
    // What a find db has by its own keys it covers.
    let unpacked = here.shipped("gfx942130.HIP.fdb.txt", "gfx942130.HIP.fdb.txt").display().to_string();
    let report = here.json(0, &["coverage", &unpacked, "--db", &unpacked, "--json", "--threshold", "100%"]);
    assert_eq!((&report["problems"]["covered"], &report["problems"]["of"]), (&9600.into(), &9600.into()));
}
