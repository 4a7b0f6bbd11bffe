use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};

use super::here::{FIND, Here, PERF};

const SYSTEM: &str = "rocm/share/miopen/db";

/// What doctor finds, as texts; and its exit code.
fn findings(here: &Here, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, Vec<String>) {
    let all = [&["doctor", "--prefix", "rocm", "--target", "gfx90a-104", "--json"], arguments].concat();
    let output = here.bluefin(&all).envs(variables.iter().copied()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let told = report["told"].as_array().unwrap().iter().filter(|told| told["severity"] == "finding");
    let texts = told.map(|told| format!("{}: {}", told["subject"].as_str().unwrap(), told["text"].as_str().unwrap()));
    (output.status.code().unwrap(), texts.collect())
}

fn installed(rocm: &str, miopen: [u32; 3]) -> Here {
    let here = Here::new();
    here.rocm(rocm, miopen);
    let find = here.write("db/gfx90a68.HIP.fdb.txt", FIND).display().to_string();
    let perf = here.write("db/gfx90a68.db.txt", PERF).display().to_string();
    here.ends(0, &["install", "--prefix", "rocm", &find, &perf]);
    here
}

#[test]
fn what_was_installed_is_found() {
    for (rocm, miopen) in [("6.2.0", [3, 2, 0]), ("6.1.0", [3, 1, 0])] {
        let here = installed(rocm, miopen);
        assert_eq!(findings(&here, &[], &[]), (0, vec![]), "{rocm}");
        let table = here.ends(0, &["doctor", "--prefix", "rocm", "--target", "gfx90a-104"]);
        assert!(table.contains("gfx90a68.HIP.fdb.txt") && table.contains("system find db"), "{table}");
    }
}

#[test]
fn why_a_file_that_is_there_is_not_used() {
    let db = |name: &str| format!("rocm/share/miopen/db/{name}");
    for (name, content, reason) in [
        ("gfx90a_104.HIP.fdb.txt", FIND, "expected gfx90a68"),
        ("gfx90a_xnack68.HIP.fdb.txt", FIND, "this is gfx90a-104"),
        ("gfx90a6e.HIP.fdb.txt", FIND, "compare endings so that no text ever matches; the exact name is gfx90a68"),
        ("gfx90a68.HIP.fdb.txt.bz2", FIND, "packed by bzip2"),
        ("gfx90a68.HIP.3_1_0_abc.ufdb.txt", FIND, "a user's database in the folder of the system's"),
    ] {
        let here = Here::new();
        here.rocm("6.2.0", [3, 2, 0]);
        here.write(&db(name), content);
        here.write(&db("gfx90a68.db.txt"), PERF);
        let (code, found) = findings(&here, &[], &[]);
        assert_eq!(code, 1);
        assert!(found.iter().any(|text| text.contains(name) && text.contains(reason)), "{name}: {found:#?}");
    }
}

#[test]
fn forms_contents_and_users() {
    let told = |here: &Here, reason: &str| {
        let (_, found) = findings(here, &[], &[]);
        assert!(found.iter().any(|text| text.contains(reason)), "{reason}: {found:#?}");
    };
    // The SQLite form alone, for a MIOpen that reads the text.
    let here = installed("6.2.0", [3, 2, 0]);
    let db = |name: &str| here.path("rocm/share/miopen/db").join(name);
    std::fs::remove_file(db("gfx90a68.db.txt")).unwrap();
    told(&here, "gfx90a68.db: not used: SQLite, which MIOpen from 3.2");
    std::fs::write(db("gfx90a68.db.txt"), "").unwrap();
    told(&here, "is empty");
    std::fs::write(db("gfx90a68.db.txt"), PERF).unwrap();

    // A user's records, of this build and of another one.
    let user = "home/.config/miopen";
    here.write(&format!("{user}/gfx90a68.HIP.3_2_0_2d1fd997.ufdb.txt"), FIND.replace("0.05", "0.5"));
    told(&here, "hides 1 records of the system's, 1 of which have a faster solver");
    here.write(&format!("{user}/gfx90a68.HIP.3_1_0_abc.ufdb.txt"), FIND);
    told(&here, "written by another build of MIOpen");

    // For a MIOpen that reads SQLite.
    let here = installed("6.1.0", [3, 1, 0]);
    let db = |name: &str| here.path("rocm/share/miopen/db").join(name);
    std::fs::write(db("gfx90a68.db"), "SQLite format 3\0").unwrap();
    told(&here, "gfx90a68.db: ");
    std::fs::remove_file(db("gfx90a68.db")).unwrap();
    std::fs::write(db("gfx90a68.db.txt"), PERF).unwrap();
    told(&here, "gfx90a68.db.txt: not used: text");
}

/// Rows of a damaged database can still be counted.
#[test]
fn a_damaged_kernel_db_is_not_healthy() {
    let here = installed("6.2.0", [3, 2, 0]);
    let path = here.write("rocm/share/miopen/db/gfx90a68.kdb", "");
    let mut writer = KernelDbWriter::create(&path).unwrap();
    for kernel in 0..300_u32 {
        let name = KernelName { name: format!("k{kernel}"), args: String::new() };
        // Which bzip2 makes no smaller.
        let code = (0..2000)
            .flat_map(|word: u32| (word ^ kernel).wrapping_mul(2_654_435_761).rotate_left(word % 31).to_le_bytes());
        writer.add(&KernelRow::new(name, &code.collect::<Vec<_>>()).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(findings(&here, &[], &[]), (0, vec![]));
    let whole = std::fs::read(&path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE kern_db SET kernel_blob = zeroblob(50) WHERE rowid % 2 = 1", []).unwrap();
    drop(db);
    let (code, found) = findings(&here, &[], &[]);
    assert_eq!((code, found.len()), (1, 1), "{found:#?}");
    let told = "gfx90a68.kdb: 150 of 150 kernels that were looked at are damaged, such as kernel k0: ";
    assert!(found[0].contains(told), "{found:#?}");
    std::fs::write(&path, whole).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 65_536].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let (code, found) = findings(&here, &[], &[]);
    assert_eq!(code, 1);
    assert!(
        found.iter().any(|text| text.contains("gfx90a68.kdb: can not be read") && text.contains("damaged")),
        "{found:#?}"
    );
}

#[test]
fn variables_that_change_what_is_read() {
    let here = installed("6.2.0", [3, 2, 0]);
    for (name, value, reason) in [
        ("MIOPEN_FIND_MODE", "1", "never reads the system find db"),
        ("MIOPEN_FIND_MODE", "normal", "never reads the system find db"),
        ("MIOPEN_FIND_ENFORCE", "search", "forces the NORMAL find mode"),
        ("MIOPEN_DEBUG_DISABLE_FIND_DB", "1", "no find db is read"),
        ("MIOPEN_DISABLE_CACHE", "1", "no kernel db is read"),
        ("MIOPEN_SYSTEM_DB_PATH", "/no/such/folder", "not a folder"),
        ("MIOPEN_DEBUG_FIND_ONLY_SOLVER", "1", "only solver"),
    ] {
        let (code, found) = findings(&here, &[(name, value)], &[]);
        assert!(
            code == 1 && found.iter().any(|text| text.starts_with(name) && text.contains(reason)),
            "{name}: {found:#?}"
        );
    }
    for (name, value) in [("MIOPEN_FIND_MODE", "3"), ("MIOPEN_FIND_ENFORCE", "none"), ("MIOPEN_DISABLE_CACHE", "0")] {
        assert_eq!(findings(&here, &[(name, value)], &[]), (0, vec![]), "{name}={value}");
    }
    let other = here.path("other");
    std::fs::create_dir(&other).unwrap();
    let (code, found) = findings(&here, &[("MIOPEN_SYSTEM_DB_PATH", other.to_str().unwrap())], &[]);
    assert!(code == 1 && found.iter().all(|text| text.contains("not there")), "{found:#?}");
}

/// What a variable does differs by version.
#[test]
fn a_search_that_is_enforced_leaves_the_mode_of_a_newer_miopen() {
    for (rocm, miopen, value, reason) in [
        ("7.0.0", [3, 5, 0], "3", Some("forces the NORMAL find mode")),
        ("7.1.0", [3, 5, 1], "3", Some("builds of MIOpen 3.5.1 differ")),
        ("7.14.0", [3, 5, 2], "3", None),
        ("7.14.0", [3, 5, 2], "SEARCH", None),
        ("7.14.0", [3, 5, 2], "4", Some("anything but 1 (NONE) and 3 (SEARCH) forces the NORMAL find mode")),
    ] {
        let here = installed(rocm, miopen);
        let (code, found) = findings(&here, &[("MIOPEN_FIND_ENFORCE", value)], &[]);
        assert_eq!(code, i32::from(reason.is_some()), "{miopen:?} {value}: {found:#?}");
        assert!(reason.is_none_or(|reason| found.iter().any(|text| text.contains(reason))), "{found:#?}");
    }
}

/// Shipped under names of hex below 65, as no device is called: what the search for the nearest number sees, and what it does not.
#[test]
fn names_in_hex_are_what_the_installed_miopen_takes_them_for() {
    let doctor = ["doctor", "--prefix", "rocm", "--target", "gfx1151-20"];
    let here = Here::new();
    let hex = here.write(&format!("{SYSTEM}/gfx115128.HIP.fdb.txt"), FIND);
    here.write(&format!("{SYSTEM}/gfx1151_20.db.txt"), PERF);
    here.rocm("6.3.0", [3, 3, 0]);
    let found = here.ends(1, &doctor);
    assert!(found.contains("gfx1151_20.HIP.fdb.txt: not there: MIOpen has no system find db"), "{found}");
    assert!(found.contains("gfx115128.HIP.fdb.txt: not used: is for gfx1151-40: MIOpen 3.2 to 3.5"), "{found}");
    let told = here.ends(0, &["install", "--system-db", "elsewhere", "--dry-run", hex.to_str().unwrap()]);
    assert!(told.contains("no device is called so; it is taken for gfx1151-40, as gfx1151_40"), "{told}");
    here.rocm("10.1.0", [3, 6, 1]);
    let found = here.ends(0, &doctor);
    assert!(
        found.contains("not there: MIOpen takes rocm/share/miopen/db/gfx115128.HIP.fdb.txt, as the nearest"),
        "{found}"
    );
    assert!(!found.contains("not used"), "{found}");

    // A user's record of the same key brings along what it would hide.
    let winograd = FIND.replace("ConvAsm1x1U:0.05", "ConvBinWinogradRxSf2x3:0.5");
    let mine = here.write("own/gfx1151_20.HIP.fdb.txt", &winograd);
    here.ends(0, &["install", "--prefix", "rocm", "--user", mine.to_str().unwrap()]);
    let user = "home/.config/miopen/gfx1151_20.HIP.3_6_1_2d1fd997.ufdb.txt";
    let text = std::fs::read_to_string(here.path(user)).unwrap();
    assert!(text.contains("ConvAsm1x1U:0.05") && text.contains("ConvBinWinogradRxSf2x3:0.5"), "{text}");
    // The exact name would hide the other file.
    let refused = here.ends(1, &["install", "--prefix", "rocm", mine.to_str().unwrap()]);
    assert!(
        refused.contains("gfx115128.HIP.fdb.txt for gfx1151-20") && refused.contains("would lose its 1 records"),
        "{refused}"
    );
    here.write("other/gfx1151_20.HIP.fdb.txt", FIND.replace("-16-", "-8-"));
    here.ends(0, &["install", "--prefix", "rocm", "--replace", "other/gfx1151_20.HIP.fdb.txt"]);
    let found = here.ends(0, &doctor);
    assert!(found.contains("gfx1151_20.HIP.fdb.txt stands for it, for gfx1151-20; 1 of its 1 records"), "{found}");
    assert!(hex.is_file());
    let covered = here.ends(0, &["coverage", "--db", hex.to_str().unwrap(), "--", hex.to_str().unwrap()]);
    assert!(covered.contains("covered: 1 of 1 problem"), "{covered}");
}

#[test]
fn what_is_missing_altogether() {
    let here = Here::new();
    let (code, found) = findings(&here, &[], &[]);
    assert!(code == 1 && found[0].starts_with("rocm: not there"), "{found:#?}");
    here.rocm("4.3.0", [2, 12, 0]);
    let (_, found) = findings(&here, &[], &[]);
    assert!(found[0].contains("found MIOpen 2.12.0.2d1fd997"), "{found:#?}");
    here.rocm("6.2.0", [3, 2, 0]);
    let (_, found) = findings(&here, &[], &["--redis", "redis://127.0.0.1:1/0"]);
    assert!(found.iter().any(|text| text.starts_with("store: ")), "{found:#?}");
}
