//! What is there stays: records come to records, and nothing that MIOpen finds is hidden without a word.

use std::io::Write as _;
use std::path::PathBuf;

use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::{KernelDb, KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::db::perf_db::PerfDb;

use super::here::{FIND, Here, PERF, files, names};

const SYSTEM: &str = "rocm/share/miopen/db";

/// A kernel db with a kernel for each of `codes`.
fn kernels(here: &Here, path: &str, source: &str, codes: &[u8]) -> String {
    let path = here.write(path, "");
    let mut writer = KernelDbWriter::create(&path).unwrap();
    for code in codes {
        let name = KernelName { name: format!("{source}.o"), args: format!(" -DX={code} -mcpu=gfx90a") };
        writer.add(&KernelRow::new(name, &[*code; 3000]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    path.display().to_string()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn rows(here: &Here, path: &str) -> usize {
    KernelDb::parse("test", &std::fs::read(here.path(path)).unwrap()).unwrap().rows.len()
}

fn finds(here: &Here, path: &str) -> FindDb {
    FindDb::parse("test", &std::fs::read(here.path(path)).unwrap()).unwrap()
}

#[test]
fn kernels_go_where_miopen_finds_the_others() {
    let here = Here::new();
    here.rocm("6.2.0", [3, 2, 0]);
    kernels(&here, &format!("{SYSTEM}/gfx90a.kdb"), "conv1x1u.s", &[1, 2, 3]);
    let new = kernels(&here, "db/gfx90a68.kdb", "conv1x1u.s", &[3, 4]);
    let told = here.ends(0, &["install", "--prefix", "rocm", &new]);
    assert!(told.contains("gfx90a.kdb: merged, ") && told.contains("3 records were there, 1 new, 0 changed"), "{told}");
    assert_eq!(
        (names(&here.path(SYSTEM)), rows(&here, &format!("{SYSTEM}/gfx90a.kdb"))),
        (vec!["gfx90a.kdb".into()], 4)
    );
    assert!(here.ends(0, &["install", "--prefix", "rocm", &new]).contains("gfx90a.kdb: same"));
    here.ends(0, &["install", "--prefix", "rocm", "--undo"]);
    assert_eq!(rows(&here, &format!("{SYSTEM}/gfx90a.kdb")), 3);

    // As told: the device's own, which hides that of the architecture.
    let told = here.ends(0, &["install", "--prefix", "rocm", "--replace", &new]);
    assert!(
        told.contains("warning: ") && told.contains("gfx90a.kdb: MIOpen no longer finds 2 of its records"),
        "{told}"
    );
    let found = here.ends(1, &["doctor", "--prefix", "rocm", "--target", "gfx90a-104"]);
    assert!(
        found.contains("gfx90a.kdb: not used: gfx90a68.kdb stands for it") && found.contains("2 of its 3"),
        "{found}"
    );
    // That one is opened then, so that is where the next go.
    let next = kernels(&here, "more/gfx90a68.kdb", "conv1x1u.s", &[5]);
    here.ends(0, &["install", "--prefix", "rocm", &next]);
    assert_eq!(rows(&here, &format!("{SYSTEM}/gfx90a68.kdb")), 3);
}

#[test]
fn records_come_to_those_that_are_there() {
    let here = Here::new();
    here.rocm("6.2.0", [3, 2, 0]);
    let other = FIND.replace("-16-", "-8-");
    let slow = FIND.replace("0.05,", "0.07,");
    let winograd = "ConvBinWinogradRxSf2x3:0.04,0,miopenConvolutionFwdAlgoWinograd";
    let find_path = here.write(&format!("{SYSTEM}/gfx90a68.HIP.fdb.txt"), format!("{other}{FIND}"));
    here.write(&format!("{SYSTEM}/gfx90a68.db.txt"), PERF);
    let new = here.write("db/gfx90a68.HIP.fdb.txt", format!("{};{winograd}\n", slow.trim_end()));
    let params = here.write("db/gfx90a68.db.txt", PERF.replace(":1,16", ":2,32"));
    let given = [new.display().to_string(), params.display().to_string()];
    let install =
        |more: &[&str]| here.ends(0, &[&["install", "--prefix", "rocm", &given[0], &given[1]], more].concat());
    install(&[]);
    let text = std::fs::read_to_string(&find_path).unwrap();
    assert_eq!(text, format!("{}{}", FIND.replace('=', &format!("={winograd};")), other));
    // The params belong to the time that stands.
    assert_eq!(std::fs::read_to_string(here.path(SYSTEM).join("gfx90a68.db.txt")).unwrap(), PERF);
    here.ends(0, &["install", "--prefix", "rocm", "--undo"]);

    install(&["--policy", "newest"]);
    assert_eq!(finds(&here, &format!("{SYSTEM}/gfx90a68.HIP.fdb.txt")).records.len(), 2);
    let perf = PerfDb::parse_text("test", &std::fs::read(here.path(SYSTEM).join("gfx90a68.db.txt")).unwrap()).unwrap();
    assert!(perf.records.values().flatten().all(|(_, params)| params.starts_with("2,32")));
    here.ends(0, &["install", "--prefix", "rocm", "--undo"]);

    let told = install(&["--replace"]);
    assert!(told.contains("MIOpen no longer finds 1 of its records"), "{told}");
    assert_eq!(finds(&here, &format!("{SYSTEM}/gfx90a68.HIP.fdb.txt")).records.len(), 1);
    let found = here.ends(1, &["doctor", "--prefix", "rocm", "--target", "gfx90a-104"]);
    assert!(found.contains("1 of the 2 records that were here before installation 3 are gone"), "{found}");

    // Nothing can come to what is no database.
    std::fs::write(here.path(SYSTEM).join("gfx90a68.db"), "neither this nor that").unwrap();
    let before = files(&here.path(SYSTEM));
    let told = here.ends(1, &["install", "--prefix", "rocm", &given[1]]);
    assert!(told.contains("gfx90a68.db: ") && told.contains("; put it aside, or say --replace"), "{told}");
    assert!(files(&here.path(SYSTEM)) == before);
    install(&["--replace"]);
}

/// A MIOpen up to 3.1 takes the database with the nearest number of compute units, until there is one for exactly the device.
#[test]
fn what_would_hide_others_is_refused() {
    let here = Here::new();
    here.rocm("6.1.0", [3, 1, 0]);
    here.write(&format!("{SYSTEM}/gfx90a6e.HIP.fdb.txt"), format!("{FIND}{}", FIND.replace("-16-", "-8-")));
    let before = files(&here.path(SYSTEM));
    let new = here.write("db/gfx90a68.HIP.fdb.txt", FIND).display().to_string();
    let told = here.ends(1, &["install", "--prefix", "rocm", &new]);
    assert!(
        told.contains("gfx90a6e.HIP.fdb.txt for gfx90a-104") && told.contains("would lose its 2 records"),
        "{told}"
    );
    assert!(files(&here.path(SYSTEM)) == before);
    here.ends(0, &["install", "--prefix", "rocm", "--replace", &new]);
    let found = here.ends(1, &["doctor", "--prefix", "rocm", "--target", "gfx90a-104"]);
    assert!(found.contains("gfx90a68.HIP.fdb.txt stands for it, for gfx90a-104; 1 of its 2 records"), "{found}");
}

/// Of a key that a user has records of MIOpen reads none of the system's.
#[test]
fn a_users_record_takes_the_systems_along() {
    let here = Here::new();
    here.rocm("6.2.0", [3, 2, 0]);
    let winograd = FIND.replace(
        "ConvAsm1x1U:0.05,0,miopenConvolutionFwdAlgoDirect",
        "ConvBinWinogradRxSf2x3:0.01,0,miopenConvolutionFwdAlgoWinograd",
    );
    here.write(&format!("{SYSTEM}/gfx90a68.HIP.fdb.txt"), format!("{winograd}{}", FIND.replace("-16-", "-8-")));
    let new = here.write("db/gfx90a68.HIP.fdb.txt", FIND).display().to_string();
    here.ends(0, &["install", "--prefix", "rocm", "--user", &new]);
    let user = finds(&here, "home/.config/miopen/gfx90a68.HIP.3_2_0_2d1fd997.ufdb.txt");
    let entries: Vec<&str> = user.records.values().flatten().map(|entry| &*entry.solver).collect();
    assert_eq!((user.records.len(), entries), (1, vec!["ConvBinWinogradRxSf2x3", "ConvAsm1x1U"]));
}

/// Under their own names, record by record, packed or not; of batch norms to no MIOpen that reads SQLite.
#[test]
fn batch_norms_and_fusions_are_installed() {
    const NORMS: &str = "batchnorm_gfx90a68.db.txt";
    const FUSIONS: &str = "gfx90a68.HIP.fusion.fdb.txt";
    let here = Here::new();
    here.rocm("6.3.0", [3, 3, 0]);
    let norm = |n: u32, params: u32| format!("2x{n}x64x56x56x1x0x0x0xNHWCxTrnxFP16x1=BnCKFwdTraining:K<{params}>\n");
    let plan = |name: &str, time: f32| format!("{name}=BnFwdInferActivationFused:{time},0,fusion\n");
    let old = [
        here.write(NORMS, [norm(16, 1), norm(32, 1)].concat()),
        here.write(FUSIONS, [plan("a", 0.5), plan("b", 0.5)].concat()),
    ];
    let new = [("db/", NORMS, norm(32, 2)), ("db/", FUSIONS, [plan("a", 0.75), plan("b", 0.25)].concat())]
        .map(|(folder, name, text)| here.write(&format!("{folder}{name}.bz2"), packed(&text)));
    let install = |code, files: &[PathBuf], more: &[&str]| {
        let files = files.iter().map(|file| file.to_str().unwrap());
        let arguments: Vec<&str> =
            ["install", "--prefix", "rocm"].into_iter().chain(more.iter().copied()).chain(files).collect();
        here.ends(code, &arguments)
    };
    install(0, &old, &[]);
    let told = install(0, &new, &[]);
    for name in [NORMS, FUSIONS] {
        assert!(told.contains(name), "{told}");
    }
    assert_eq!(told.matches(": 2 records were there, 0 new, 1 changed, 0 gone").count(), 2, "{told}");
    let read = |name: &str| std::fs::read_to_string(here.path(&format!("{SYSTEM}/{name}"))).unwrap();
    assert_eq!(
        (read(NORMS), read(FUSIONS)),
        ([norm(16, 1), norm(32, 2)].concat(), [plan("a", 0.5), plan("b", 0.25)].concat())
    );
    let doctor = ["doctor", "--prefix", "rocm", "--target", "gfx90a-104"];
    let found = here.ends(1, &doctor);
    assert!(found.contains("system perf db of batch norms") && found.contains("system find db of fusions"), "{found}");

    // A user's record of a plan hides the system's, so that one comes along.
    let own = here.write("own/gfx90a68.HIP.fusion.fdb.txt", plan("a", 0.75));
    install(0, &[own], &["--user"]);
    let user = std::fs::read_to_string(here.path("home/.config/miopen/gfx90a68.HIP.3_3_0_2d1fd997.fusion.ufdb.txt"));
    assert_eq!(user.unwrap(), plan("a", 0.5));

    install(0, &[], &["--undo"]);
    assert_eq!(
        (read(NORMS), read(FUSIONS)),
        ([norm(16, 1), norm(32, 1)].concat(), [plan("a", 0.5), plan("b", 0.5)].concat())
    );
    here.rocm("6.1.0", [3, 1, 0]);
    let told = install(1, &old, &[]);
    assert!(told.contains("is of batch norms: MIOpen before 3.2"), "{told}");
    assert!(here.ends(1, &doctor).contains("batchnorm_gfx90a68.db.txt: not used: batch norms"));
}

/// Records that MIOpen ignores tune nothing.
#[test]
fn what_tunes_nothing_is_not_installed() {
    let here = Here::new();
    here.rocm("6.2.0", [3, 2, 0]);
    let own = here.write("db/gfx90a68.HIP.fdb.txt", FIND.replace("ConvAsm1x1U", "BluefinConvFwdGpuDirect"));
    let unknown = here.write("mine/gfx90a68.db.txt", PERF.replace("ConvAsm1x1U", "MyConv"));
    let shipped = bluefin_kernel_spec::Bundle::shipped();
    let source = bluefin_kernel_spec::KernelSpec::load(&shipped[0]).unwrap().source;
    let kdb = kernels(&here, "db/gfx90a68.kdb", &source, &[1]);
    for (path, reason) in [
        (own.display().to_string(), "1 records of bluefin's own kernels, such as BluefinConvFwdGpuDirect"),
        (unknown.display().to_string(), "no record of a solver of MIOpen's (found such as MyConv"),
        (kdb, "1 records of bluefin's own kernels"),
    ] {
        let told = here.ends(1, &["install", "--prefix", "rocm", &path]);
        assert!(told.contains(reason), "{told}");
    }
    assert_eq!(names(&here.path(SYSTEM)), [""; 0]);
    // Whoever knows better has a word.
    let told = here.ends(0, &["install", "--prefix", "rocm", "--force", &unknown.display().to_string()]);
    assert!(told.contains("warning: ") && told.contains("found such as MyConv"), "{told}");
    assert_eq!(names(&here.path(SYSTEM)), ["gfx90a68.db", "gfx90a68.db.txt"]);
    // One that is newer than the solvers that are known may have others.
    let unknown = unknown.display().to_string();
    let newer = |code, given: &[&str]| {
        let all = [&["install", "--prefix", "rocm", "--miopen-version", "3.6.0", "--dry-run"], given].concat();
        here.ends(code, &all)
    };
    let told = newer(0, &[&unknown]);
    assert!(told.contains("such as MyConv; the MIOpen that will read them is newer, and may"), "{told}");
    // Who has its list knows.
    let list = |name: &str| format!("id,name,primitive,algo,tunable,dynamic\n1,{name},Convolution,Direct,1,0\n");
    let [with, without] = ["MyConv", "ConvAsm1x1U"].map(|name| here.write(&format!("{name}.csv"), list(name)));
    let told = newer(0, &[&unknown, "--solvers", &with.display().to_string()]);
    assert!(!told.contains("warning: "), "{told}");
    let told = newer(1, &[&unknown, "--solvers", &without.display().to_string()]);
    assert!(
        told.contains("found such as MyConv; the solvers are those of") && told.contains("ConvAsm1x1U.csv"),
        "{told}"
    );
    // Nor do they cover anything.
    here.write("shapes.txt", "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -F 1\n");
    let report = here.json(0, &["coverage", "shapes.txt", "--db", "db/gfx90a68.HIP.fdb.txt", "--json"]);
    assert_eq!((&report["problems"]["covered"], &report["without_find"]), (&0.into(), &1.into()));
}

/// By their names the solvers that bluefin ships are told from MIOpen's.
#[test]
fn the_names_of_own_solvers_tell_so() {
    for bundle in bluefin_kernel_spec::Bundle::shipped().iter() {
        let spec = bluefin_kernel_spec::KernelSpec::load(bundle).unwrap();
        for solver in &spec.solvers {
            assert!(bluefin_miopen::db::solvers::is_own(&solver.name), "{}", solver.name);
        }
    }
    let shipped = bluefin_miopen::db::solvers::Solvers::shipped();
    assert!(!shipped.names().any(bluefin_miopen::db::solvers::is_own));
}
