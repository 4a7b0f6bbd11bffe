//! `fin -i <input.json> -o <output.json>`

use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bluefin_common::problem::ConvProblem;
use bluefin_miopen::db::{decompress, md5_hex};
use bluefin_miopen::key::FindDbKey;
use serde_json::{Map, Value, json};

use crate::fault::{Fault, Faults};
use crate::library::{self, Registered};
use crate::{database, note_call, problem, variable};

/// Architectures that the program knows, each with its numbers of CUs.
const KNOWN: [(&str, &[u64]); 7] = [
    ("gfx900", &[56, 64]),
    ("gfx906", &[60, 64]),
    ("gfx908", &[120]),
    ("gfx1030", &[72, 36]),
    ("gfx90a", &[110, 104]),
    ("gfx940", &[228]),
    ("gfx942", &[304, 228]),
];

struct Process {
    no_gpu_build: bool,
    old: bool,
    faults: Faults,
}

/// An uncaught exception: nothing of what was done is written.
struct Thrown(String);

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let paths = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["-i", input, "-o", output] | ["-o", output, "-i", input] => (input.to_string(), output.to_string()),
        _ => {
            println!("Usage: fin -i <input.json> -o <output.json>");
            return ExitCode::SUCCESS;
        }
    };
    let (input, output) = paths;
    let Ok(text) = std::fs::read(&input) else {
        println!("Error opening json file: {input}");
        return ExitCode::from(255);
    };
    // Opened before work starts and written at its very end.
    let mut file = File::create(&output).expect("the output file");
    let process = Process {
        no_gpu_build: variable("STAND_IN_BACKEND").as_deref() == Some("HIPNOGPU"),
        old: variable("STAND_IN_GENERATION").as_deref() == Some("2022"),
        faults: Faults::from_environment(),
    };
    let jobs: Vec<Value> = serde_json::from_slice(&text).unwrap_or_else(|error| throw(&error.to_string()));
    let environment: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    let mut document = vec![json!({ "process_env": environment })];
    for job in jobs {
        match process.job(&job) {
            Ok(answer) => document.push(answer),
            Err(Thrown(what)) => throw(&what),
        }
    }
    let mut text = serde_json::to_string_pretty(&document).expect("an answer");
    if process.truncates(&document) {
        text.truncate(text.len() / 2);
    }
    file.write_all(text.as_bytes()).expect("the answer is written");
    ExitCode::SUCCESS
}

/// As a C++ program ends that nobody catches an exception of.
fn throw(what: &str) -> ! {
    eprintln!("terminate called after throwing an instance of 'std::runtime_error'\n  what():  {what}");
    std::process::abort()
}

fn sleep_for_ever(babbles: bool) -> ! {
    loop {
        if babbles {
            println!("MIOpen(HIP): Warning [Monitor] still at it");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

impl Process {
    fn truncates(&self, document: &[Value]) -> bool {
        document.iter().any(|answer| answer.get("stand_in_garbage").is_some())
    }

    fn job(&self, job: &Value) -> Result<Value, Thrown> {
        let mut answer = Map::new();
        for name in ["arch", "direction", "config_tuna_id"] {
            answer.insert(name.to_string(), job.get(name).cloned().unwrap_or(Value::Null));
        }
        answer.insert("input".to_string(), job.clone());
        let problem = match job.get("config") {
            Some(config) => {
                check_device(job)?;
                Some(problem::read(config, self.old).ok_or_else(|| Thrown("[json.exception.type_error]".into()))?)
            }
            None => None,
        };
        let steps = job.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        for step in steps.iter().filter_map(Value::as_str) {
            match (step, &problem) {
                ("get_solvers", _) => {
                    answer.insert("all_solvers".to_string(), self.all_solvers());
                }
                ("applicability", Some(problem)) => self.applicability(problem, &mut answer)?,
                ("alloc_buf" | "fill_buf" | "copy_buf_to_device" | "copy_buf_from_device", Some(_)) => {
                    self.needs_gpu(step)?
                }
                ("miopen_find_compile" | "miopen_perf_compile", Some(problem)) => {
                    if !self.no_gpu_build {
                        return Err(Thrown(format!("Unable to run {step}, Invalid MIOpen backend: HIP")));
                    }
                    self.step(step, job, problem, &mut answer)?;
                }
                ("miopen_find_eval" | "miopen_perf_eval", Some(problem)) => {
                    self.needs_gpu(step)?;
                    self.step(step, job, problem, &mut answer)?;
                }
                // Silently ignored.
                _ => {}
            }
        }
        Ok(Value::Object(answer))
    }

    fn needs_gpu(&self, step: &str) -> Result<(), Thrown> {
        if self.no_gpu_build {
            return Err(Thrown(format!("Unable to run {step}, Invalid MIOpen backend: HIPNOGPU")));
        }
        if variable("STAND_IN_GPU").as_deref() == Some("none") {
            return Err(Thrown("hipGetDeviceCount: no ROCm-capable device is detected".to_string()));
        }
        Ok(())
    }

    fn all_solvers(&self) -> Value {
        let flag = |set: bool| if set { "1" } else { "0" };
        let all = library::solvers().map(|solver| {
            if self.old {
                return json!([solver.id.to_string(), solver.name]);
            }
            json!({
                "id": solver.id.to_string(), "name": solver.name, "tunable": flag(solver.tunable),
                "dynamic": flag(solver.dynamic), "type": "convolution",
            })
        });
        let bn = json!({"id": "120", "name": "BnFwdTrainingSpatialSingle", "tunable": "0", "dynamic": "0", "type": "batch_norm"});
        all.chain((!self.old).then_some(bn)).collect()
    }

    fn applicability(&self, problem: &ConvProblem, answer: &mut Map<String, Value>) -> Result<(), Thrown> {
        let key = FindDbKey::from(problem).to_string();
        note_call("applicability", "", &key);
        if let Some(fault) = self.faults.of_call("applicability", "", &key) {
            self.fail_process(fault, answer)?;
        }
        let names: Vec<&str> =
            library::solvers().filter(|solver| applies(solver, problem)).map(|solver| solver.name).collect();
        answer.insert("applicable_solvers".to_string(), json!(names));
        Ok(())
    }

    fn step(
        &self,
        step: &str,
        job: &Value,
        problem: &ConvProblem,
        answer: &mut Map<String, Value>,
    ) -> Result<(), Thrown> {
        let key = FindDbKey::from(problem).to_string();
        let compiles = step.ends_with("_compile");
        let given = job.get(step.replace("_eval", "_compile") + "_result").and_then(Value::as_array);
        let entries: Vec<Value> = if compiles {
            let asked = job.get("solvers").and_then(Value::as_array).cloned();
            asked.unwrap_or_else(|| library::solvers().map(|solver| json!(solver.name)).collect())
        } else {
            given.cloned().unwrap_or_default()
        };
        let mut items = Vec::new();
        let mut shown_key = key.clone();
        let mut shown = true;
        for entry in &entries {
            let name = entry.as_str().or_else(|| entry.get("solver_name").or_else(|| entry.get("solver_id"))?.as_str());
            let name = name.unwrap_or_default();
            note_call(step, name, &key);
            let fault = self.faults.of_call(step, name, &key);
            match fault {
                Some(Fault::NoEntry) => continue,
                Some(Fault::NoKey) => shown = false,
                Some(Fault::WrongKey) => shown_key = key.replacen("-0x0-", "-9x9-", 1).replacen("-1x1-", "-7x7-", 1),
                Some(Fault::WrongArch) => return Err(Thrown("Invalid Arch Name".to_string())),
                Some(fault) => self.fail_process(fault, answer)?,
                None => {}
            }
            let item = if compiles {
                self.compile(step, job, problem, &key, name, fault)
            } else {
                self.evaluate(step, job, problem, &key, entry, fault)
            };
            items.extend(item);
        }
        answer.insert("is_winograd_only".to_string(), json!(false));
        answer.insert("network_config".to_string(), json!(shown_key.replace('-', "x")));
        answer.insert("db_key".to_string(), json!(shown_key));
        if shown {
            answer.insert(format!("{step}_result"), Value::Array(items));
        }
        Ok(())
    }

    /// What ends the whole process, or the document.
    fn fail_process(&self, fault: Fault, answer: &mut Map<String, Value>) -> Result<(), Thrown> {
        match fault {
            Fault::Crash => Err(Thrown("HIP runtime error: invalid device function".to_string())),
            Fault::ExitCode => std::process::exit(3),
            Fault::Hang => sleep_for_ever(false),
            Fault::Babble => sleep_for_ever(true),
            Fault::EmptyOutput => std::process::exit(0),
            Fault::OutOfMemory => Err(Thrown("hipMalloc failed: out of memory".to_string())),
            Fault::DiskIo => Err(Thrown("Internal error while accessing SQLite database: disk I/O error".to_string())),
            Fault::LeakEnvironment => {
                std::env::vars().for_each(|(name, value)| println!("{name}={value}"));
                std::env::vars().for_each(|(name, value)| eprintln!("  export {name}={value}"));
                Err(Thrown("the environment".to_string()))
            }
            Fault::Garbage => {
                answer.insert("stand_in_garbage".to_string(), json!(true));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn compile(
        &self,
        step: &str,
        job: &Value,
        problem: &ConvProblem,
        key: &str,
        name: &str,
        fault: Option<Fault>,
    ) -> Option<Value> {
        let done = if step == "miopen_perf_compile" { "perf_compiled" } else { "find_compiled" };
        let failed = |solver: Option<&Registered>, reason: &str| {
            let algorithm = solver.map_or_else(String::new, |solver| solver.algorithm_for(problem.direction));
            // Left out by the old generation.
            (!self.old).then(|| json!({"solver_name": name, "algorithm": algorithm, "reason": reason, done: false}))
        };
        let Some(solver) = library::solver(name) else { return failed(None, "Empty Solver") };
        if !applies(&solver, problem) || fault == Some(Fault::NotApplicable) {
            return failed(Some(&solver), "Not Applicable");
        }
        if job.get("dynamic_only").and_then(Value::as_bool) == Some(true) && !solver.dynamic {
            return failed(Some(&solver), "Not Dynamic");
        }
        if fault == Some(Fault::Exception) {
            return failed(Some(&solver), "Solver throws exceptionno valid configuration");
        }
        let arch = job.get("arch").and_then(Value::as_str).unwrap_or_default();
        let params = params(job, problem, key, &solver);
        let space =
            if step == "miopen_perf_compile" && solver.tunable { solver.space(key) } else { vec![params.clone()] };
        let mut kernels: Vec<Value> = space
            .iter()
            .flat_map(|params| solver.kernels(key, params, arch))
            .map(|kernel| {
                let (md5, stream) = kernel.packed();
                json!({
                    "blob": STANDARD.encode(stream), "comp_options": kernel.options, "kernel_file": kernel.file,
                    "md5_sum": md5, "uncompressed_size": kernel.code.len(),
                })
            })
            .collect();
        if let Some(kernel) = kernels.last_mut() {
            match fault {
                Some(Fault::CorruptBlob) => {
                    let blob = kernel["blob"].as_str().unwrap_or_default();
                    let (head, tail) = blob.split_at(blob.len() / 2);
                    kernel["blob"] = json!(format!(
                        "{head}{}",
                        if tail.starts_with('A') { tail.replacen('A', "B", 1) } else { format!("A{}", &tail[1..]) }
                    ));
                }
                Some(Fault::Md5Mismatch) => kernel["md5_sum"] = json!("0123456789abcdef0123456789abcdef"),
                Some(Fault::Uncompressed) => {
                    kernel["blob"] = json!("");
                    kernel["md5_sum"] = json!("Failed to compress kernel");
                    kernel["uncompressed_size"] = json!(0);
                }
                _ => {}
            }
        }
        if fault == Some(Fault::NoKernels) {
            kernels.clear();
        }
        let algorithm = solver.algorithm_for(problem.direction);
        let mut item =
            json!({"algorithm": algorithm, done: true, "kernel_objects": kernels, "tunable": solver.tunable});
        if !(self.old && step == "miopen_perf_compile") {
            item["reason"] = json!("Success");
        }
        item[if self.old && step == "miopen_perf_compile" { "solver_id" } else { "solver_name" }] = json!(name);
        if step == "miopen_find_compile" {
            item["params"] = json!(params);
            item["workspace"] = json!(solver.workspace(key));
        }
        Some(item)
    }

    fn evaluate(
        &self,
        step: &str,
        job: &Value,
        problem: &ConvProblem,
        key: &str,
        entry: &Value,
        fault: Option<Fault>,
    ) -> Option<Value> {
        let name = entry.get("solver_name").or_else(|| entry.get("solver_id")).and_then(Value::as_str)?;
        let failed = |reason: &str| json!({"solver_name": name, "algorithm": "", "reason": reason, "evaluated": false});
        let Some(solver) = library::solver(name) else { return Some(failed("Empty Solver")) };
        if !applies(&solver, problem) || fault == Some(Fault::NotApplicable) {
            return Some(failed("Not Applicable"));
        }
        let algorithm = solver.algorithm_for(problem.direction);
        let unloaded = json!({"solver_name": name, "algorithm": algorithm, "evaluated": false});
        if fault == Some(Fault::MissingReason) {
            return Some(unloaded);
        }
        if fault == Some(Fault::Exception) {
            return Some(failed(if self.old { "Invoker exeception: boom" } else { "Invoker exception: boom" }));
        }
        let params =
            if step == "miopen_perf_eval" { solver.best_params(key) } else { params(job, problem, key, &solver) };
        let arch =
            variable("STAND_IN_ARCH").or_else(|| Some(job.get("arch")?.as_str()?.to_string())).unwrap_or_default();
        let kernels = entry.get("kernel_objects").and_then(Value::as_array).cloned().unwrap_or_default();
        // Those that do not check out are skipped without a trace; the one that is needed is then missing.
        let loaded: Vec<Vec<u8>> = kernels.iter().filter_map(load).collect();
        if !solver.kernels(key, &params, &arch).iter().all(|kernel| loaded.contains(&kernel.code)) {
            return Some(unloaded);
        }
        let mut item = json!({
            "solver_name": name, "algorithm": algorithm, "evaluated": true, "reason": "Success", "params": params,
            "time": solver.time_ms(key, &params), "workspace": solver.workspace(key), "tunable": solver.tunable,
        });
        if !self.old {
            item["layout"] = json!(problem.x_layout.name());
            item["data_type"] = json!(1);
            item["direction"] = json!(0);
            item["bias"] = json!(0);
            item["kernel_objects"] = json!(kernels);
        }
        match fault {
            Some(Fault::Reson) => {
                item["reson"] = json!("Invoker returned time < 0");
                item["time"] = json!(-1.0);
            }
            Some(Fault::ZeroTime) => {
                item["reason"] = json!("Invoker returned time = 0");
                item["time"] = json!(0.0);
            }
            Some(Fault::NegativeTime) => item["time"] = json!(-0.25),
            Some(Fault::Legacy) => item["reason"] = json!("Legacy Solver"),
            _ => {}
        }
        Some(item)
    }
}

fn applies(solver: &Registered, problem: &ConvProblem) -> bool {
    let [depth, y, x] = problem.filter;
    // Three dimensions are for the general ones.
    let general = solver.name.starts_with("Gemm") || solver.name.starts_with("ConvDirectNaive");
    solver.applies(problem.direction, [y, x]) && (depth == 1 && problem.spatial == 2 || general)
}

/// The params that a solver takes: those of the databases it can see, or its own.
fn params(job: &Value, problem: &ConvProblem, key: &str, solver: &Registered) -> String {
    let arch = job.get("arch").and_then(Value::as_str).unwrap_or_default();
    let cus = job.get("num_cu").and_then(Value::as_u64).unwrap_or_default();
    database::tuned(&database::base_name(arch, cus), problem, solver).unwrap_or_else(|| solver.default_params(key))
}

/// A kernel's code, if it is what it says.
fn load(kernel: &Value) -> Option<Vec<u8>> {
    let stream = STANDARD.decode(kernel.get("blob")?.as_str()?).ok()?;
    let code = decompress(&stream, kernel.get("uncompressed_size")?.as_u64()?).ok()?;
    (md5_hex(&code) == kernel.get("md5_sum")?.as_str()?).then_some(code)
}

fn check_device(job: &Value) -> Result<(), Thrown> {
    let arch = job.get("arch").and_then(Value::as_str).unwrap_or_default();
    let name = arch.split(':').next().unwrap_or_default();
    let known =
        KNOWN.iter().find(|(known, _)| *known == name).ok_or_else(|| Thrown("Invalid Arch Name".to_string()))?;
    let cus = job.get("num_cu").and_then(Value::as_u64).unwrap_or_default();
    if !known.1.contains(&cus) {
        return Err(Thrown("Assertion `num_cu' failed.".to_string()));
    }
    Ok(())
}
