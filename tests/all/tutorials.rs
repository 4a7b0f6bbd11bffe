//! The tutorials are followed as they are written: what they say in a shell, in a folder with what they take for granted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_stand_ins::{program, wrap};
use bluefin_test_support::examples::command_lines;
use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::{triton_python, wait_until};
use serde_json::Value;

use crate::common::roles::Roles;
use crate::common::{Running, bluefin, expect, text, write};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder to follow a tutorial in.
struct Reader {
    folder: tempfile::TempDir,
    /// Folders of programs, before those of the system.
    path: Vec<PathBuf>,
    environment: Vec<(&'static str, OsString)>,
}

impl Reader {
    fn new() -> Self {
        let program = bluefin().get_program().to_owned();
        let path = vec![Path::new(&program).parent().unwrap().to_path_buf()];
        Self { folder: tempfile::tempdir().unwrap(), path, environment: Vec::new() }
    }

    fn with_examples(self, names: &[&str]) -> Self {
        let examples = self.folder.path().join("examples");
        std::fs::create_dir(&examples).unwrap();
        for name in names {
            std::fs::copy(root().join("examples").join(name), examples.join(name)).unwrap();
        }
        self
    }

    /// A line in a shell: what it printed, and what it said.
    fn follow(&self, line: &str) -> [String; 2] {
        let output = expect(&mut self.shell(line), 0);
        [text(&output.stdout), text(&output.stderr)]
    }

    /// A shell that is given `line`.
    fn shell(&self, line: &str) -> Command {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let path = self.path.iter().cloned().chain(std::env::split_paths(&system));
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(self.folder.path());
        shell.env("PATH", std::env::join_paths(path).unwrap()).env("COLUMNS", "80");
        let own = bluefin();
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        shell
    }

    fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

/// The command lines of a tutorial, as many as it has.
fn commands(name: &str, count: usize) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/tutorials").join(name)).unwrap();
    let commands = command_lines(&page);
    assert_eq!(commands.len(), count, "{commands:?}");
    commands
}

#[test]
fn a_kernel_in_c() {
    let reader = Reader::new().with_examples(&["stencil.c", "stencil.toml"]);
    let said: String = commands("c.md", 4).iter().map(|line| reader.follow(line)[0].clone()).collect();
    let page = std::fs::read_to_string(root().join("docs/tutorials/c.md")).unwrap();
    let (_, shown) = page.split_once("```text\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(said.contains(shown), "shown:\n{shown}\nsaid:\n{said}");
    for name in ["out/stencil.h", "out/winners.json", "report.html"] {
        assert!(reader.has(name), "{name}");
    }
}

/// The program, its torch and its GPU are stand-ins; Triton is real.
#[test]
fn a_kernel_of_triton() {
    let Some(python) = triton_python().map(PathBuf::from) else { return };
    let mut reader = Reader::new();
    let stand_ins = root().join("tests/stand-ins/triton");
    let folder = reader.folder.path().to_path_buf();
    std::fs::create_dir(folder.join("blocks")).unwrap();
    for name in ["torch.py", "blocks/__init__.py", "blocks/ops.py"] {
        std::fs::copy(stand_ins.join(name), folder.join(name)).unwrap();
    }
    for name in ["bench.py", "train.py"] {
        std::fs::copy(stand_ins.join("program.py"), folder.join(name)).unwrap();
    }
    let machine = HipMachine::new("gfx942-304");
    reader.path.push(python.parent().unwrap().to_path_buf());
    reader.environment = machine.environment();
    reader.environment.extend([
        ("BLUEFIN_STANDIN_BACKEND", "executed".into()),
        ("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string().into()),
        ("BLUEFIN_PYTHON", python.into()),
        ("STAND_IN_KERNELS", "sums 64".into()),
        ("TRITON_CACHE_DIR", folder.join("triton").into()),
        ("PYTHONWARNINGS", "ignore".into()),
    ]);
    let lines = commands("triton.md", 5);
    let [captured, checked, tuned, applied, gain] =
        lines.iter().map(|line| reader.follow(line)).collect::<Vec<_>>().try_into().unwrap();
    assert!(captured[1].contains("kernels: 1 kernel with 3 configs"), "{captured:?}");
    assert!(checked[0].contains("gather"), "{checked:?}");
    assert!(tuned[1].contains("bluefin apply --triton out"), "{tuned:?}");
    assert!(applied[1].contains("1 tuning key had the config that was found"), "{applied:?}");
    assert!(gain[0].contains("cold start"), "{gain:?}");
}

/// `infer.py` says what MIOpen logs, MIOpenDriver and the GPU are stand-ins.
#[test]
fn a_model_on_miopen() {
    let mut reader = Reader::new();
    let folder = reader.folder.path().to_path_buf();
    let log = "import sys\nfor size in (28, 14, 28):\n    print(f'MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 16 -c 64 \
               -H {size} -W {size} -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1', file=sys.stderr)\n";
    write(&folder, "infer.py", log);
    let variables = [("STAND_IN_BACKEND", "HIP"), ("STAND_IN_ARCH", "gfx90a"), ("STAND_IN_SEED", "5")];
    let driver = wrap(&folder.join("tools"), &program("MIOpenDriver"), &variables);
    let machine = HipMachine::new("gfx90a-104");
    reader.environment = machine.environment();
    reader.environment.push(("BLUEFIN_MIOPEN_DRIVER", driver.into()));
    let rocm = folder.join("rocm");
    std::fs::create_dir_all(rocm.join("share/miopen/db")).unwrap();
    let lines = commands("miopen.md", 8);
    let here = |line: &String| reader.follow(&line.replace("/opt/rocm", &rocm.display().to_string()));
    let said: Vec<[String; 2]> = lines.iter().take(7).map(here).collect();
    let listed = std::fs::read_to_string(folder.join("model.txt")).unwrap();
    assert_eq!(listed.lines().filter(|line| line.starts_with("conv ")).count(), 2, "{listed}");
    assert!(reader.has("db/gfx90a68.HIP.fdb.txt"), "{said:#?}");
    assert!(said[4][0].contains("covered: 2 of 2 problems (100.0%)"), "{said:#?}");
    let installed: Vec<_> = std::fs::read_dir(rocm.join("share/miopen/db")).unwrap().collect();
    assert!(!installed.is_empty(), "{said:#?}");
    assert!(lines[7].starts_with("bluefin doctor"), "{lines:?}");
}

/// What the workflow runs, night after night.
#[test]
fn nightly_in_ci() {
    let reader = Reader::new().with_examples(&["row_sums.toml", "row_sums.hip"]);
    write(reader.folder.path(), "model.txt", "conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 1 -x 1 -F 1\n");
    let lines = commands("ci.md", 3);
    for night in 0..2 {
        for line in &lines {
            reader.follow(line);
        }
        let tuned = std::fs::read_to_string(reader.folder.path().join("tuned.json")).unwrap();
        let tuned: Value = serde_json::from_str(&tuned).unwrap();
        assert!(tuned["problems"][0]["winner"].is_object(), "{tuned}");
        let enqueued = tuned["plan"]["enqueued"].as_u64().or_else(|| tuned["enqueue"]["enqueued"].as_u64());
        assert_eq!(enqueued.unwrap() > 0, night == 0, "night {night}: {tuned}");
    }
    assert!(reader.has("report.html"));
}

/// What docker starts there are the tests' own servers, with the users that `make-credentials` has made, and a compile worker; the
/// second machine's GPU is a stand-in.
#[test]
fn a_fleet_of_two_machines() {
    let roles = Roles::start();
    let mut reader = Reader::new();
    let (folder, made) = (reader.folder.path().to_path_buf(), roles.fleet.folder.path().join("made"));
    std::fs::create_dir(folder.join("deploy")).unwrap();
    std::os::unix::fs::symlink(&made, folder.join("deploy/secrets")).unwrap();
    std::fs::copy(made.join("eval-worker.env"), folder.join("eval-worker.env")).unwrap();
    std::fs::create_dir(folder.join("examples")).unwrap();
    write(&folder, "examples/resnet50.txt", "conv -n 1 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n");
    let machine = HipMachine::new("gfx90a-104");
    reader.environment = machine.environment();
    reader.environment.push(("BLUEFIN_STANDIN_BACKEND", "executed".into()));

    let page = std::fs::read_to_string(root().join("docs/tutorials/fleet.md")).unwrap();
    let steps: Vec<Vec<&str>> = page
        .split("\n**")
        .skip(1)
        .map(|step| step.lines().filter_map(|line| line.strip_prefix("    ")).collect())
        .collect();
    let [servers, second, work, watch, result] = steps.try_into().unwrap();
    assert!(servers[1].starts_with("deploy/make-credentials deploy/secrets amqp://$A:5672 redis://"), "{servers:?}");
    let _compile = roles.worker("compile-worker", &["compile-worker", "--toolchain", "clang"]);
    let mut shell = reader.shell(&second.join("\n").replace("bluefin", "exec bluefin"));
    shell.stdout(Stdio::null()).stderr(roles.fleet.log());
    let _eval = Running::start(&mut shell);

    let [source, enqueue, status] = work.try_into().unwrap();
    assert!(enqueue.contains(" --target h100") && status == "bluefin status --watch", "{enqueue}, {status}");
    let enqueue = enqueue.replace("h100", "gfx90a-104 --budget 1");
    reader.follow(&[source, &enqueue].join("\n"));
    wait_until(Duration::from_secs(120), "the session to be complete", || {
        roles.fleet.status("first").is_some_and(|status| status["complete"] == true)
    });
    let [workers, jobs] = watch.try_into().unwrap();
    let told = reader.follow(&[source, workers, jobs].join("\n"))[0].clone();
    assert!(told.contains("hip:0") && told.contains("clang"), "{told}");
    reader.follow(&result.join("\n"));
    for name in ["db/winners.json", "report.html"] {
        assert!(reader.has(name), "{name}");
    }
}
