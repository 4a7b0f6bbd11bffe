//! The library as a program sees it that loads it at run time. A process has one HIP for all its life, so each test is a
//! process of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod hip;

use std::ffi::c_void;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::ptr;

use bluefin_test_support::hip::{Code, Effect, Fault, HipMachine, Place, library};
use hip::Hip;

const FLOATS: usize = 100;

/// Runs `body` in a process that has `machine`'s environment and `extra`, and is this test again.
fn on(machine: &HipMachine, extra: &[(&str, &str)], body: impl FnOnce(&Hip)) {
    if std::env::var_os("BLUEFIN_TEST_INNER").is_some() {
        return body(&Hip::load(&library()));
    }
    let name = std::thread::current().name().unwrap().to_string();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env("BLUEFIN_TEST_INNER", "1")
        .envs(machine.environment())
        .envs(extra.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

fn machine() -> HipMachine {
    HipMachine::new("gfx90a-104,gfx942-304")
}

fn compile(source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("kernels.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library").join(source);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&object).arg(source).args(flags);
    assert!(cc.status().unwrap().success());
    fs::read(object).unwrap()
}

/// Two buffers and a kernel on them.
struct Axpy {
    x: *mut c_void,
    y: *mut c_void,
    function: *mut c_void,
}

impl Axpy {
    fn new(hip: &Hip) -> Self {
        Self::of(hip, &compile("kernels.c", &[]))
    }

    /// From the code object `code`.
    fn of(hip: &Hip, code: &[u8]) -> Self {
        let module = hip.load_module(code).unwrap();
        let (x, y) = (hip.malloc(4 * FLOATS).unwrap(), hip.malloc(4 * FLOATS).unwrap());
        hip.write(x, &[2.0; FLOATS]).unwrap();
        hip.write(y, &[0.0; FLOATS]).unwrap();
        Self { x, y, function: hip.function(module, "axpy").unwrap() }
    }

    fn launch(&self, hip: &Hip, stream: *mut c_void) -> hip::Result<()> {
        let (mut x, mut y, mut a, mut n) = (self.x, self.y, 3.0_f32, FLOATS as i64);
        let mut arguments =
            [(&raw mut x).cast::<c_void>(), (&raw mut y).cast(), (&raw mut a).cast(), (&raw mut n).cast()];
        let launched = hip.launch(self.function, 64, stream, &mut arguments);
        // A launch has taken its arguments when it returns.
        (x, y, a, n) = (ptr::null_mut(), ptr::null_mut(), 0.0, -1);
        let _ = (x, y, a, n);
        launched
    }
}

#[test]
fn devices() {
    let machine = machine();
    on(&machine, &[], |hip| {
        assert!(amdhip64::SYMBOLS.iter().all(|symbol| hip.has(symbol)));
        assert_eq!(hip.count(), Ok(2));
        assert_eq!(hip.name(1).unwrap(), "AMD Instinct MI300X");
        assert_eq!(format!("GPU-{}", hip.uuid(1).unwrap()), machine.uuid(1));
        assert_eq!(hip.pci_bus_id(1).unwrap(), "0000:04:00.0");
        assert_eq!(hip.attribute(63, 0), Ok(104));
        assert_eq!(hip.attribute(87, 0), Ok(64));
        assert_eq!(hip.attribute(12_345, 0), Err(1));
        assert_eq!(hip.name(2), Err(101));
        assert_eq!(hip.select(-1), Err(101));
        assert_eq!(hip.version(), Ok(60_443_484));
        assert_eq!(hip.error_name(209), "hipErrorNoBinaryForGpu");
        assert_eq!(hip.memory(), Ok((1 << 30, 1 << 30)));
    });
}

#[test]
fn one_visible_device() {
    let machine = machine();
    on(&machine, &[("ROCR_VISIBLE_DEVICES", &machine.uuid(1))], |hip| {
        assert_eq!((hip.count(), hip.attribute(63, 0)), (Ok(1), Ok(304)));
    });
}

#[test]
fn no_device() {
    on(&HipMachine::new(""), &[], |hip| {
        assert_eq!(hip.count(), Err(100));
        assert_eq!(hip.malloc(1), Err(100));
    });
}

#[test]
fn kernels_run_in_order_and_take_time() {
    on(&machine(), &[], |hip| {
        hip.select(1).unwrap();
        let axpy = Axpy::new(hip);
        let stream = hip.stream().unwrap();
        let (from, to) = (hip.event().unwrap(), hip.event().unwrap());
        assert_eq!(hip.elapsed(from, to), Err(400), "not recorded");
        let sleep = hip.function(hip.load_module(&compile("kernels.c", &[])).unwrap(), "sleep").unwrap();
        hip.record(from, stream).unwrap();
        let mut ms = 50_i32;
        hip.launch(sleep, 1, stream, &mut [(&raw mut ms).cast()]).unwrap();
        axpy.launch(hip, stream).unwrap();
        hip.record(to, stream).unwrap();
        assert_eq!(hip.query(stream), Err(600), "the kernel sleeps");
        assert_eq!(hip.elapsed(from, to), Err(600));
        hip.synchronize_event(to).unwrap();
        hip.synchronize(stream).unwrap();
        assert_eq!(hip.query(stream), Ok(()));
        let elapsed = hip.elapsed(from, to).unwrap();
        assert!(elapsed >= 50.0, "{elapsed}");
        assert!(hip.elapsed(to, from).unwrap() <= -50.0);
        assert_eq!(hip.read(axpy.y, FLOATS).unwrap(), [7.0; FLOATS]);
        hip.fill(axpy.y, 1.5_f32.to_bits() as i32, FLOATS, stream).unwrap();
        hip.copy(axpy.x, axpy.y, 4 * FLOATS, stream).unwrap();
        assert_eq!(hip.read(axpy.x, FLOATS).unwrap(), [1.5; FLOATS]);
        assert_eq!(hip.copy(axpy.x, axpy.y, 1 << 30, stream), Err(1));
        hip.destroy_stream(stream).unwrap();
        hip.destroy_event(from).unwrap();
        assert_eq!(hip.synchronize(stream), Err(400));
        assert_eq!(hip.record(from, ptr::null_mut()), Err(400));
    });
}

#[test]
fn what_is_no_use_is_refused() {
    on(&machine(), &[], |hip| {
        assert_eq!(hip.malloc((1 << 30) + 1), Err(2));
        assert_eq!(hip.malloc(0), Ok(ptr::null_mut()));
        let most = hip.malloc(1 << 30).unwrap();
        assert_eq!(hip.malloc(1), Err(2));
        hip.free(most).unwrap();
        assert_eq!(hip.free(most), Err(1));
        let axpy = Axpy::new(hip);
        assert_eq!(hip.read(axpy.y, FLOATS + 1), Err(1), "behind the end");
        assert_eq!(hip.launch(axpy.function, 1025, ptr::null_mut(), &mut []), Err(9));
        assert_eq!(hip.launch(axpy.x, 1, ptr::null_mut(), &mut []), Err(400));
        assert_eq!(hip.load_module(b"nothing"), Err(200));
        let mut object = compile("kernels.c", &[]);
        let module = hip.load_module(&object).unwrap();
        assert_eq!(hip.function(module, "missing"), Err(500));
        hip.unload(module).unwrap();
        assert_eq!(hip.function(module, "axpy"), Err(400));
        object[18..20].copy_from_slice(&[224, 0]);
        assert_eq!(hip.load_module(&object), Err(209), "code for an AMD GPU");
    });
}

#[test]
fn an_overrun_is_an_illegal_address() {
    on(&machine(), &[], |hip| {
        let module = hip.load_module(&compile("kernels.c", &[])).unwrap();
        let function = hip.function(module, "overrun").unwrap();
        let mut y = hip.malloc(4 * FLOATS).unwrap();
        hip.launch(function, 1, ptr::null_mut(), &mut [(&raw mut y).cast()]).unwrap();
        assert_eq!(hip.synchronize(ptr::null_mut()), Err(700));
        assert_eq!(hip.malloc(1), Err(700), "it stays");
        hip.select(1).unwrap();
        assert!(hip.malloc(1).is_ok(), "the other device knows nothing of it");
    });
}

#[test]
fn faults_of_kernels() {
    let machine = machine();
    on(&machine, &[], |hip| {
        let machine_faults = std::env::var_os("BLUEFIN_STANDIN_FAULTS").unwrap();
        let faults = amdhip64::faults::FaultFile::at(machine_faults.into());
        let axpy = Axpy::new(hip);
        let stream = ptr::null_mut();
        let with = |effect: Effect| {
            faults.set(&[Fault::kernel("axpy", effect)]).unwrap();
            hip.fill(axpy.y, 0, FLOATS, stream).unwrap();
            axpy.launch(hip, stream)?;
            hip.read(axpy.y, FLOATS)
        };
        assert_eq!(with(Effect::Unwritten), Ok(vec![0.0; FLOATS]));
        let wrong = with(Effect::Wrong).unwrap();
        assert!(wrong[0] != 7.0 && wrong[0].is_finite() && wrong[1..] == [7.0; FLOATS - 1], "{wrong:?}");
        let nan = with(Effect::Nan).unwrap();
        assert!(nan[0].is_nan() && nan[1..] == [7.0; FLOATS - 1], "{nan:?}");
        assert_eq!(with(Effect::Error(Code::LAUNCH_FAILURE)), Err(719));
        assert_eq!(with(Effect::Slow(1.0)), Ok(vec![7.0; FLOATS]));
        faults.set(&[Fault::call("hipEventElapsedTime", Effect::Time(f32::NAN))]).unwrap();
        let (from, to) = (hip.event().unwrap(), hip.event().unwrap());
        hip.record(from, stream).unwrap();
        hip.record(to, stream).unwrap();
        hip.synchronize_event(to).unwrap();
        assert!(hip.elapsed(from, to).unwrap().is_nan());
        assert_eq!(with(Effect::Sticky(Code::ILLEGAL_ADDRESS)), Err(700));
        faults.set(&[]).unwrap();
        assert_eq!(hip.synchronize_device(), Err(700), "it outlives its cause");
    });
}

#[test]
fn a_hang_is_never_ready() {
    let machine = machine();
    let hang = Fault::kernel("axpy", Effect::Hang).on(0).only(0, 1);
    machine.set_faults(std::slice::from_ref(&hang));
    on(&machine, &[], |hip| {
        Axpy::new(hip).launch(hip, ptr::null_mut()).unwrap();
        assert_eq!(hip.query(ptr::null_mut()), Err(600));
    });
    // What waits would wait for ever; the next process does not meet it again.
    if std::env::var_os("BLUEFIN_TEST_INNER").is_none() {
        assert_eq!(machine.hits(&hang), 1);
    }
}

#[test]
fn a_lost_device_is_lost_to_all_until_it_is_found() {
    let machine = machine();
    on(&machine, &[], |hip| {
        let faults = amdhip64::faults::FaultFile::at(std::env::var_os("BLUEFIN_STANDIN_FAULTS").unwrap().into());
        faults.set(&[Fault::lost(1)]).unwrap();
        assert_eq!(hip.count(), Ok(2));
        assert_eq!(hip.select(1), Err(100));
        hip.select(0).unwrap();
        assert!(hip.malloc(1).is_ok());
        faults.set(&[]).unwrap();
        assert_eq!(hip.select(1), Ok(()));
        faults.set(&[Fault::call("hipInit", Effect::Error(Code::NOT_INITIALIZED))]).unwrap();
        assert_eq!(hip.init(), Err(3));
    });
}

#[test]
fn a_device_that_is_gone_is_not_counted() {
    let machine = machine();
    machine.set_faults(&[Fault::new(Place::Any, Effect::Gone).on(0)]);
    on(&machine, &[], |hip| assert_eq!((hip.count(), hip.attribute(63, 0)), (Ok(1), Ok(304))));
}

/// The same calls on a real GPU.
#[test]
fn ptx_runs_on_an_nvidia_gpu() {
    if !Path::new("/dev/nvidiactl").exists() {
        bluefin_test_support::left_out_for_hardware("no /dev/nvidiactl");
        return;
    }
    on(&machine(), &[("BLUEFIN_STANDIN_BACKEND", "cuda")], |hip| {
        println!("{} of compute capability {:?}", hip.name(0).unwrap(), (hip.attribute(23, 0), hip.attribute(61, 0)));
        assert_eq!(hip.uuid(0).unwrap().len(), 16);
        let axpy = Axpy::of(hip, concat!(include_str!("axpy.ptx"), "\0").as_bytes());
        let stream = hip.stream().unwrap();
        let (from, to) = (hip.event().unwrap(), hip.event().unwrap());
        hip.record(from, stream).unwrap();
        axpy.launch(hip, stream).unwrap();
        hip.record(to, stream).unwrap();
        hip.synchronize_event(to).unwrap();
        assert!(hip.elapsed(from, to).unwrap() > 0.0);
        assert_eq!(hip.read(axpy.y, FLOATS).unwrap(), [7.0; FLOATS]);
        hip.fill(axpy.y, 1.5_f32.to_bits() as i32, FLOATS, stream).unwrap();
        hip.synchronize(stream).unwrap();
        assert_eq!(hip.read(axpy.y, FLOATS).unwrap(), [1.5; FLOATS]);
        assert_eq!(hip.malloc(1 << 50), Err(2));
        assert!(hip.load_module(b"nothing\0").is_err());
        let nowhere = Axpy { y: ptr::without_provenance_mut(8), ..axpy };
        nowhere.launch(hip, stream).unwrap();
        assert_eq!(hip.synchronize(stream), Err(700));
        assert_eq!(hip.malloc(1), Err(700), "it stays");
    });
}
