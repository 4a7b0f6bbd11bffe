//! A device as a process has it: what it holds, and the thread that does its work in the order in which it was asked.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::code::{Function, Module};
use super::memory::Allocation;
use super::operation::{Operation, Stamp};
use super::trap;
use crate::codes::{Code, Result};
use crate::gate::{self, Twist};
use crate::runtime::Order;

/// How often a wait looks for a kernel that faulted: a signal handler can not wake anyone.
const GLANCE: Duration = Duration::from_millis(1);

/// The last handle that was given out; what HIP gives out are addresses of other things.
static HANDLE: AtomicU64 = AtomicU64::new(0x1000);

fn new_handle() -> u64 {
    HANDLE.fetch_add(16, Ordering::Relaxed) + 16
}

pub struct Context {
    /// Of the device among all.
    index: usize,
    /// Bytes of memory.
    total: u64,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub struct State {
    /// Bytes allocated.
    pub used: u64,
    pub allocations: BTreeMap<u64, Allocation>,
    pub modules: HashMap<u64, Arc<Module>>,
    functions: HashMap<u64, Arc<Function>>,
    /// The number of the last operation of each stream, and of the default one.
    pub streams: HashMap<u64, u64>,
    /// Whether it keeps time, and the last time it was recorded.
    pub events: HashMap<u64, (bool, Option<Stamp>)>,
    queue: VecDeque<(Operation, Twist)>,
    submitted: u64,
    pub finished: u64,
}

impl State {
    /// The bytes of the allocation around `address`.
    pub fn around(&self, address: u64) -> Option<(u64, usize)> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.bytes() as u64).then_some((*start, allocation.bytes()))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// The device at `index` of all, with `total` bytes of memory.
    pub fn start(index: usize, total: u64) -> Self {
        trap::install();
        let mut state = State::default();
        state.streams.insert(0, 0);
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("gpu-{index}"));
        // It ends with the process, as a device does not end at all.
        thread.spawn(move || work(index, &worker)).expect("a thread can be started");
        Self { index, total, shared }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub fn allocate(&self, bytes: usize) -> Result<u64> {
        let mut state = self.lock();
        let used = state.used.checked_add(bytes as u64).filter(|used| *used <= self.total);
        let used = used.ok_or(Code::OUT_OF_MEMORY)?;
        let allocation = Allocation::new(bytes)?;
        let address = allocation.address();
        state.used = used;
        state.allocations.insert(address, allocation);
        Ok(address)
    }

    pub fn free(&self, address: u64) -> Result<()> {
        let mut state = self.lock();
        let allocation = state.allocations.remove(&address).ok_or(Code::INVALID_VALUE)?;
        state.used -= allocation.bytes() as u64;
        Ok(())
    }

    /// Whether `bytes` bytes at `address` are allocated.
    pub fn check_range(&self, address: u64, bytes: usize) -> Result<()> {
        let (start, length) = self.lock().around(address).ok_or(Code::INVALID_VALUE)?;
        let end = (address - start).checked_add(bytes as u64);
        if end.is_some_and(|end| end <= length as u64) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    pub fn add_module(&self, module: Module) -> u64 {
        let handle = new_handle();
        self.lock().modules.insert(handle, Arc::new(module));
        handle
    }

    pub fn add_function(&self, module: u64, name: &str) -> Result<u64> {
        let mut state = self.lock();
        let module = state.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let function = Function::find(module, name)?;
        let handle = new_handle();
        state.functions.insert(handle, Arc::new(function));
        Ok(handle)
    }

    /// The function, if its module is still loaded.
    pub fn function(&self, handle: u64) -> Result<Arc<Function>> {
        let state = self.lock();
        let function = state.functions.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        let loaded = state.modules.values().any(|module| function.is_of(module));
        if loaded { Ok(Arc::clone(function)) } else { Err(Code::INVALID_HANDLE) }
    }

    pub fn add_stream(&self) -> u64 {
        let handle = new_handle();
        self.lock().streams.insert(handle, 0);
        handle
    }

    pub fn add_event(&self, timed: bool) -> u64 {
        let handle = new_handle();
        self.lock().events.insert(handle, (timed, None));
        handle
    }

    /// Gives an event the stamp that it will get.
    pub fn renew(&self, event: u64, stamp: Stamp) -> Result<()> {
        self.lock().events.get_mut(&event).ok_or(Code::INVALID_HANDLE)?.1 = Some(stamp);
        Ok(())
    }

    pub fn stamp(&self, event: u64) -> Result<(bool, Option<Stamp>)> {
        self.lock().events.get(&event).cloned().ok_or(Code::INVALID_HANDLE)
    }

    /// The number of the last operation of `stream`.
    pub fn last_of(&self, stream: u64) -> Result<u64> {
        self.lock().streams.get(&stream).copied().ok_or(Code::INVALID_HANDLE)
    }

    pub fn submit(&self, order: Order, operation: Operation) -> Result<()> {
        let mut state = self.lock();
        let number = state.submitted + 1;
        *state.streams.get_mut(&order.stream).ok_or(Code::INVALID_HANDLE)? = number;
        state.submitted = number;
        state.queue.push_back((operation, order.twist));
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until everything up to `number` is done.
    pub fn wait(&self, number: u64) -> Result<()> {
        self.wait_until(|state| state.finished >= number)
    }

    pub fn wait_for_all(&self) -> Result<()> {
        let submitted = self.lock().submitted;
        self.wait(submitted)
    }

    pub fn wait_until(&self, done: impl Fn(&State) -> bool) -> Result<()> {
        let mut state = self.lock();
        while !done(&state) {
            gate::check(self.index)?;
            let waited = self.shared.changed.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// What the thread of a device does.
fn work(index: usize, shared: &Shared) {
    loop {
        let mut state = shared.lock();
        let (operation, twist) = loop {
            match state.queue.pop_front() {
                Some(next) => break next,
                None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let touched: Vec<(u64, usize)> =
            operation.addresses().into_iter().filter_map(|address| state.around(address)).collect();
        drop(state);
        trap::guarded(index, || operation.run(twist, &touched));
        shared.lock().finished += 1;
        shared.changed.notify_all();
    }
}
