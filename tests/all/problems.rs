//! The problem library, as its users meet it.

use std::path::Path;
use std::process::Command;

use bluefin_test_support::data_path;

use crate::common::{bluefin, expect, json, text, write};

/// `bluefin` in a folder of its own, with its state there.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn a_list_becomes_a_tag_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(
        folder,
        "net.txt",
        "conv -n 1 -c 8 -k 8 -F 1\nbnormfp16 -n 2 -m 1 --forw 1\nconv -n 1 -c 8 -k 8 -F 1\nnonsense\n",
    );
    let import = ["problems", "import", "-t", "net", "-f", "net.txt", "--json"];
    let output = expect(&mut run(folder, &import), 1);
    let file = &json(&output)["files"][0];
    let numbers = ["asked", "problems", "new", "present"].map(|field| file[field].as_u64().unwrap());
    assert_eq!(numbers, [3, 2, 2, 0]);
    let reject = "net.txt:4: found neither a driver command nor a key of a database";
    let said = text(&output.stderr);
    assert_eq!((said.lines().last(), file["rejects"][0].as_str()), (Some(reject), Some(reject)));
    // Lines that leave sizes out may have been cut off.
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("note: sizes are missing")).collect();
    assert!(
        notes.len() == 2 && notes[1].contains("net.txt:2: note") && notes[1].contains("-c 3 -H 32 -W 32."),
        "{said}"
    );
    // The same again, by MITuna's name and flags, changes nothing.
    let again = ["import_configs", "-t", "net", "--file_name", "net.txt", "--mark_recurrent", "--allow-rejects"];
    let output = expect(&mut run(folder, &again), 0);
    assert!(text(&output.stdout).contains("0 new, 2 present; 1 line rejected"), "{}", text(&output.stdout));

    let tags = json(&expect(&mut run(folder, &["problems", "tag", "list", "--json"]), 0));
    assert_eq!(
        (&tags[0]["tag"], &tags[0]["problems"], &tags[0]["recurrent"]),
        (&"net".into(), &2.into(), &true.into())
    );
    let shown = json(&expect(&mut run(folder, &["problems", "tag", "show", "net", "--json"]), 0));
    assert_eq!(shown["kinds"], serde_json::json!({ "conv F FP32": 1, "bnorm Trn FP16": 1 }));
    let listed = text(&expect(&mut run(folder, &["problems", "list", "-t", "net", "--json"]), 0).stdout);
    write(folder, "net.jsonl", &listed);
    expect(&mut run(folder, &["problems", "export", "-t", "net", "--filename", "out/net.txt"]), 0);
    let commands = std::fs::read_to_string(folder.join("out/net.txt")).unwrap();
    assert_eq!(commands.lines().filter(|line| line.starts_with("./bin/MIOpenDriver ")).count(), 2);
    // What comes out goes in.
    let back = ["problems", "import", "-t", "back", "-f", "net.jsonl", "out/net.txt", "--json"];
    let back = json(&expect(&mut run(folder, &back), 0));
    assert_eq!((&back["files"][0]["new"], &back["files"][1]["present"]), (&2.into(), &2.into()));

    expect(&mut run(folder, &["problems", "tag", "remove", "back"]), 0);
    let output = expect(&mut run(folder, &["problems", "list", "-t", "back"]), 1);
    assert!(text(&output.stderr).contains("bluefin problems import -t back"), "{}", text(&output.stderr));
}

#[test]
fn batches_precision_and_kind_are_changed_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "net.txt", "conv -n 1 -c 8 -k 8 -F 1\nbnorm -n 1 --forw 2\n");
    let import = ["import_configs", "-t", "a", "-f", "net.txt", "-b", "16,32", "-c", "convfp16", "--json"];
    assert_eq!(json(&expect(&mut run(folder, &import), 0))["files"][0]["new"], 4);
    let listed = text(&expect(&mut run(folder, &["problems", "list", "-t", "a"]), 0).stdout);
    let mut bases: Vec<String> =
        listed.lines().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    bases.sort();
    assert_eq!(bases, ["bnormfp16 -n 16", "bnormfp16 -n 32", "convfp16 -n 16", "convfp16 -n 32"]);
    // Only what is known, and only batch norms.
    write(folder, "more.txt", "bnormfp16 -n 16 --forw 2\nbnormfp16 -n 64 --forw 2\nconv -F 1\n");
    let import = ["import_configs", "-t", "b", "-f", "more.txt", "--tag_only", "-C", "batch_norm", "--json"];
    let output = expect(&mut run(folder, &import), 1);
    let file = json(&output)["files"][0].clone();
    assert_eq!((&file["new"], &file["unknown"]), (&1.into(), &1.into()));
    let said = text(&output.stderr);
    assert!(said.lines().any(|line| line.starts_with("more.txt:3: found conv F")), "{said}");
}

#[test]
fn shipped_databases_are_imported_packed_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files =
        ["gfx942130.HIP.fdb.txt.bz2", "old_gfx90a68.HIP.fdb.txt", "usr_gfx90a68.HIP.fdb.txt", "gfx942130.db.bz2"];
    let mut import = run(folder, &["problems", "import", "-t", "shipped", "--json", "-f"]);
    let report = json(&expect(import.args(files.map(|file| data_path(&format!("miopen/{file}")))), 0));
    let numbers = |file: usize| ["problems", "new"].map(|field| report["files"][file][field].as_u64().unwrap());
    assert_eq!(numbers(0), [9600, 9600]);
    // The perf db has keys of the same problems, and of a few more; those of backward directions leave a size open.
    let [problems, new] = numbers(3);
    assert_eq!(problems, 9393);
    assert!(new < 1000, "{new} of {problems} are new");
    let lists = data_path("driver/batch_norm.txt");
    let report = json(&expect(run(folder, &["problems", "import", "-t", "bn", "--json", "-f"]).arg(lists), 0));
    assert_eq!(report["files"][0]["new"], 28);
}
