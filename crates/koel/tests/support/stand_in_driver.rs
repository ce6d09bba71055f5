//! A stand-in for the CUDA driver's library, for machines without one: host memory as device
//! memory, all work done at once, kernels counted but not run. `device.rs` compiles it and runs
//! itself against it, so that koel's use of the driver (order of calls, sizes, errors) is tested
//! without a GPU.
//!
//! Vector clocks check the concurrency of a GPU. Two uses of one allocation (memory to which a
//! kernel gets a pointer counts as written) in streams of which neither waits for the other end the
//! process, as does memory that is freed or allocated again while a stream may still use it. Copies
//! from and to pinned memory run as late as a GPU might run them: when the host waits for them, or
//! when their device memory is used again. Captures follow the driver's rules: calls that are
//! errors there are errors here.
//!
//! Environment: `STAND_IN_VERSION` (CUDA version, 12000), `STAND_IN_DEVICES` (1),
//! `STAND_IN_CAPABILITY` (90), `STAND_IN_MEMORY` (total bytes, 2^30), `STAND_IN_PINNED` (limit of
//! pinned bytes, 2^30), `STAND_IN_MACHINE_CODE` (0: machine code is refused, as by a driver that is
//! too old), `STAND_IN_FAULT` (the name of a kernel after which all calls fail as after a fault),
//! `STAND_IN_EARLY` (required number of launch attributes of captured kernels: early starts),
//! `STAND_IN_FAST` (launches return at once, unchecked: to measure koel's own time),
//! `STAND_IN_FAIL` (calls that fail and their errors: `cuInit=999,cuStreamCreate=2`; those that
//! name a device fail on one of them as `cuDevicePrimaryCtxRetain:0=46`).
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the driver's names, called by the driver's contract"
)]
use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Instant;

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;
const INVALID_IMAGE: c_int = 200;
const INVALID_CONTEXT: c_int = 201;
const INVALID_HANDLE: c_int = 400;
const NOT_READY: c_int = 600;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_UNJOINED: c_int = 904;
const CAPTURE_ISOLATION: c_int = 905;
const CAPTURE_IMPLICIT: c_int = 906;

/// The known progress of each stream.
#[derive(Clone, Default)]
struct Clock(BTreeMap<usize, u64>);
impl Clock {
    fn learn(&mut self, other: &Clock) {
        for (&stream, &time) in &other.0 {
            let mine = self.0.entry(stream).or_default();
            *mine = time.max(*mine);
        }
    }
    fn knows(&self, stream: usize, time: u64) -> bool {
        self.0.get(&stream).is_some_and(|&t| t >= time)
    }
}
#[derive(Default)]
struct Stream {
    blocks: bool,
    clock: Clock,
    /// The capture it is part of, and how much it has recorded there.
    capture: Option<(usize, u64)>,
}
struct Event {
    at: Instant,
    clock: Clock,
    /// The capture it was recorded in: its number, the stream, how much that had recorded.
    capture: Option<(usize, usize, u64)>,
}
#[derive(Clone)]
enum Node {
    Copy { to: u64, from: u64, bytes: usize },
    Fill { to: u64, byte: u8, bytes: usize },
    Kernel { name: String, touches: Vec<u64> },
}
#[derive(Default)]
struct Capture {
    origin: usize,
    nodes: Vec<Node>,
    /// By stream: how much of its work the origin waits for.
    joined: HashMap<usize, u64>,
}
struct Allocation {
    bytes: usize,
    /// The last use: stream and time.
    used: (usize, u64),
}
/// An entry of a module: its name, and the size of each parameter.
#[derive(Clone)]
struct Entry {
    name: String,
    params: Vec<usize>,
}
#[derive(Default)]
struct Driver {
    /// What the host has waited for.
    host: Clock,
    memory: BTreeMap<u64, Allocation>,
    /// By handle; 0 is the legacy stream.
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Event>,
    captures: HashMap<usize, Capture>,
    graphs: HashMap<usize, Vec<Node>>,
    modules: Vec<Vec<Entry>>,
    functions: Vec<Entry>,
    /// Pinned memory: address and size.
    pinned: BTreeMap<u64, usize>,
    /// Copies from and to pinned memory that have not run, in order.
    copies: Vec<PinnedCopy>,
    handles: usize,
}
/// A copy between pinned memory and the allocation at `base`.
#[derive(Clone, Copy)]
struct PinnedCopy {
    to: u64,
    from: u64,
    bytes: usize,
    base: u64,
    stream: usize,
    time: u64,
}
static CURRENT: AtomicBool = AtomicBool::new(false);
static FAULTED: AtomicBool = AtomicBool::new(false);
static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let mut driver = Driver { handles: 0x1000, ..Driver::default() };
    driver.streams.insert(0, Stream { blocks: true, ..Stream::default() });
    Mutex::new(driver)
});
fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(|e| e.into_inner())
}
/// Ends the process: a misuse of the driver that a GPU would not report.
fn misuse(text: String) -> ! {
    eprintln!("stand-in driver: {text}");
    std::process::abort()
}

impl Driver {
    fn handle(&mut self) -> usize {
        self.handles += 0x10;
        self.handles
    }
    /// Returns the allocation that contains `bytes` bytes at `at`.
    fn base(&self, at: u64, bytes: usize) -> Option<u64> {
        let (&base, a) = self.memory.range(..=at).next_back()?;
        (at + bytes as u64 <= base + a.bytes as u64).then_some(base)
    }
    /// Advances a stream's clock by one step, after everything it waits for implicitly.
    fn step(&mut self, stream: usize) -> (Clock, u64) {
        let legacy = self.streams[&0].clock.clone();
        let blocking =
            self.streams.values().filter(|s| s.blocks).map(|s| s.clock.clone()).collect::<Vec<_>>();
        let host = self.host.clone();
        let s = self
            .streams
            .get_mut(&stream)
            .unwrap_or_else(|| misuse(format!("no stream {stream:#x}")));
        s.clock.learn(&host);
        if stream == 0 {
            blocking.iter().for_each(|b| s.clock.learn(b));
        } else if s.blocks {
            s.clock.learn(&legacy);
        }
        let time = s.clock.0.entry(stream).or_default();
        *time += 1;
        let time = *time;
        (s.clock.clone(), time)
    }
    /// Returns whether the legacy stream may be used: not while a stream that synchronizes with it
    /// is capturing.
    fn legacy(&self) -> c_int {
        if self.streams.values().any(|s| s.blocks && s.capture.is_some()) {
            CAPTURE_IMPLICIT
        } else {
            0
        }
    }
    /// Records that the host has waited for what a clock knows.
    fn host_learns(&mut self, clock: &Clock) {
        self.host.learn(clock);
        let host = self.host.clone();
        self.run_copies(|copy| host.knows(copy.stream, copy.time));
    }
    fn run_copies(&mut self, which: impl Fn(&PinnedCopy) -> bool) {
        for copy in self.copies.extract_if(.., |copy| which(copy)) {
            unsafe { std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes) };
        }
    }
    /// Copies between `host` and the device's memory at `at` in the order of a stream. If the host
    /// memory is pinned, the copy is left for later.
    fn copy_of_host(&mut self, at: u64, host: u64, bytes: usize, stream: usize, up: bool) -> c_int {
        if stream == 0 && self.legacy() != 0 {
            return self.legacy();
        }
        let now = self.step(stream);
        let Some(base) = self.base(at, bytes) else { return INVALID_VALUE };
        let (to, from) = if up { (at, host) } else { (host, at) };
        let pinned = self.pinned.range(..=host).next_back();
        if pinned.is_some_and(|(start, size)| host + bytes as u64 <= start + *size as u64) {
            self.note_use(base, stream, &now, "a copy of pinned memory");
            self.copies.push(PinnedCopy { to, from, bytes, base, stream, time: now.1 });
        } else {
            self.touch(base, stream, &now, "a copy of the host");
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        }
        ready()
    }
    /// Uses the allocation at `base` at this point of a stream.
    fn touch(&mut self, base: u64, stream: usize, (clock, time): &(Clock, u64), what: &str) {
        self.run_copies(|copy| copy.base == base);
        self.note_use(base, stream, &(clock.clone(), *time), what);
    }
    /// Checks that a use of the allocation at `base` waits for the last one.
    fn note_use(&mut self, base: u64, stream: usize, (clock, time): &(Clock, u64), what: &str) {
        let a = self
            .memory
            .get_mut(&base)
            .unwrap_or_else(|| misuse(format!("{what}: freed memory at {base:#x}")));
        let (before, then) = a.used;
        if !clock.knows(before, then) {
            misuse(format!(
                "{what} on stream {stream:#x} does not wait for stream {before:#x}, \
                 which uses the same memory"
            ));
        }
        a.used = (stream, *time);
    }
    /// Runs work on a stream, or records it.
    fn submit(&mut self, stream: usize, node: Node) -> c_int {
        let Some(s) = self.streams.get_mut(&stream) else { return INVALID_HANDLE };
        if let Some((capture, count)) = &mut s.capture {
            *count += 1;
            let capture = *capture;
            self.captures.get_mut(&capture).unwrap().nodes.push(node);
            return 0;
        }
        if stream == 0 && self.legacy() != 0 {
            return self.legacy();
        }
        let now = self.step(stream);
        self.run(stream, &now, &node)
    }
    fn run(&mut self, stream: usize, now: &(Clock, u64), node: &Node) -> c_int {
        match node {
            Node::Copy { bytes: 0, .. } | Node::Fill { bytes: 0, .. } => {}
            Node::Copy { to, from, bytes } => {
                let (Some(t), Some(f)) = (self.base(*to, *bytes), self.base(*from, *bytes)) else {
                    return INVALID_VALUE;
                };
                [t, f].into_iter().for_each(|base| self.touch(base, stream, now, "a copy"));
                unsafe { std::ptr::copy(*from as *const u8, *to as *mut u8, *bytes) };
            }
            Node::Fill { to, byte, bytes } => {
                let Some(base) = self.base(*to, *bytes) else { return INVALID_VALUE };
                self.touch(base, stream, now, "a fill");
                unsafe { std::ptr::write_bytes(*to as *mut u8, *byte, *bytes) };
            }
            Node::Kernel { name, touches } => {
                touches.iter().for_each(|&base| self.touch(base, stream, now, name));
                if std::env::var("STAND_IN_FAULT").is_ok_and(|k| k == *name) {
                    FAULTED.store(true, SeqCst);
                }
            }
        }
        ready()
    }
    /// Copies from or to the host on the legacy stream. The host waits until its reads have ended;
    /// its writes may still be in flight when it continues.
    fn host_copy(&mut self, at: u64, bytes: usize, waits: bool) -> c_int {
        if self.legacy() != 0 {
            return self.legacy();
        }
        let now = self.step(0);
        match self.base(at, bytes) {
            _ if bytes == 0 => {}
            None => return INVALID_VALUE,
            Some(base) => self.touch(base, 0, &now, "a copy of the host"),
        }
        if waits {
            self.host_learns(&now.0);
        }
        ready()
    }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
/// Returns the error that `STAND_IN_FAIL` demands of a call, or 0.
fn demanded(call: &str) -> c_int {
    static FAIL: LazyLock<String> =
        LazyLock::new(|| std::env::var("STAND_IN_FAIL").unwrap_or_default());
    let error = |entry: &str| entry.strip_prefix(call)?.strip_prefix('=')?.parse().ok();
    FAIL.split(',').find_map(error).unwrap_or(0)
}
/// Returns from a call with the error that is demanded of it, on a device if it names one.
macro_rules! may_fail {
    ($call:literal $(on $device:ident)?) => {
        $(if let error @ 1.. = demanded(&format!("{}:{}", $call, $device)) {
            return error;
        })?
        if let error @ 1.. = demanded($call) {
            return error;
        }
    };
}
/// Checks the state that every call but the first few needs.
fn ready() -> c_int {
    if !CURRENT.load(SeqCst) {
        INVALID_CONTEXT
    } else if FAULTED.load(SeqCst) {
        ILLEGAL_ADDRESS
    } else {
        0
    }
}
/// The only context.
fn context() -> *mut c_void {
    0xC0 as *mut c_void
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> c_int {
    may_fail!("cuInit");
    if setting("STAND_IN_DEVICES", 1) == 0 { NO_DEVICE } else { 0 }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    may_fail!("cuDriverGetVersion");
    unsafe { *version = setting("STAND_IN_VERSION", 12000) as c_int };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    may_fail!("cuDeviceGetCount");
    unsafe { *count = setting("STAND_IN_DEVICES", 1) as c_int };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    may_fail!("cuDeviceGet" on ordinal);
    unsafe { *device = ordinal };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> c_int {
    may_fail!("cuDeviceGetName" on device);
    let text = b"Stand-in GPU\0";
    assert!(len as usize >= text.len());
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    may_fail!("cuDeviceGetAttribute" on device);
    let capability = setting("STAND_IN_CAPABILITY", 90);
    let v = match attribute {
        75 => capability / 10,
        76 => capability % 10,
        97 => 227 << 10,
        16 => 132,
        115 => 1,
        other => panic!("attribute {other}"),
    };
    unsafe { *value = v as c_int };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut *mut c_void, device: c_int) -> c_int {
    may_fail!("cuDevicePrimaryCtxRetain" on device);
    unsafe { *to = context() };
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    may_fail!("cuCtxSetCurrent");
    CURRENT.store(!context.is_null(), SeqCst);
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(to: *mut *mut c_void) -> c_int {
    unsafe { *to = if CURRENT.load(SeqCst) { context() } else { std::ptr::null_mut() } };
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> c_int {
    let mut driver = driver();
    let clocks = driver.streams.values().map(|s| s.clock.clone()).collect::<Vec<_>>();
    clocks.iter().for_each(|c| driver.host_learns(c));
    ready()
}
fn entries_of_ptx(text: &str) -> Option<Vec<Entry>> {
    let target = text.lines().find_map(|l| l.strip_prefix(".target sm_"));
    let capability = target
        .and_then(|c| c.trim().parse::<usize>().ok())
        .filter(|_| text.contains(".visible .entry"))?;
    assert!(
        capability == if setting("STAND_IN_CAPABILITY", 90) >= 90 { 90 } else { 75 },
        "PTX for sm_{capability}"
    );
    let size = |line: &str| match line {
        _ if line.contains(".b8") => line.split(['[', ']']).nth(1).unwrap().parse().unwrap(),
        _ if line.contains("64") => 8,
        _ => 4,
    };
    let entry = |text: &str| {
        let (name, rest) = text.split_once('(').unwrap();
        let params = rest
            .split(')')
            .next()
            .unwrap()
            .lines()
            .filter(|l| l.contains(".param"))
            .map(size)
            .collect();
        Entry { name: name.trim().into(), params }
    };
    Some(text.split(".visible .entry ").skip(1).map(entry).collect())
}
/// Returns the entries of a cubin: its sections `.nv.info.NAME`, in which attribute 0x17 describes
/// one parameter. A driver accepts only cubins of its GPU's architecture, and one that is too old
/// accepts none.
unsafe fn entries_of_machine_code(elf: *const u8) -> Option<Vec<Entry>> {
    let word = |at: usize, bytes: usize| {
        (0..bytes).rev().fold(0usize, |n, i| n << 8 | unsafe { elf.add(at + i).read() } as usize)
    };
    if setting("STAND_IN_MACHINE_CODE", 1) == 0 {
        return None;
    }
    let (table, count, names) = (word(40, 8), word(60, 2), word(62, 2));
    let section = |i: usize| {
        let at = table + i * 64;
        (word(at, 4), word(at + 24, 8), word(at + 32, 8))
    };
    let names = section(names).1;
    let mut entries = vec![];
    for (name, from, bytes) in (0..count).map(section) {
        let name =
            unsafe { CStr::from_ptr(elf.add(names + name).cast()) }.to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix(".nv.info.") else { continue };
        let (mut params, mut at) = (BTreeMap::new(), from);
        while at < from + bytes {
            // A form, an attribute, and two bytes: a value, or the number of bytes that follow.
            let (form, attribute, value) = (word(at, 1), word(at + 1, 1), word(at + 2, 2));
            if attribute == 0x17 {
                params.insert(word(at + 8, 2), word(at + 12, 4) >> 18);
            }
            at += 4 + if form == 4 { value } else { 0 };
        }
        entries.push(Entry { name: name.into(), params: params.into_values().collect() });
    }
    Some(entries)
}
/// The process may always exchange its mode: nobody captures in another mode.
#[unsafe(no_mangle)]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(_: *mut c_uint) -> c_int {
    0
}
/// A module is its number, from one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_char) -> c_int {
    may_fail!("cuModuleLoadData");
    let entries = match unsafe { std::slice::from_raw_parts(image.cast::<u8>(), 4) } {
        b"\x7fELF" => unsafe { entries_of_machine_code(image.cast()) },
        _ => entries_of_ptx(&unsafe { CStr::from_ptr(image) }.to_string_lossy()),
    };
    let Some(entries) = entries else { return INVALID_IMAGE };
    let mut driver = driver();
    driver.modules.push(entries);
    unsafe { *module = driver.modules.len() as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    if module.is_null() { INVALID_HANDLE } else { 0 }
}
/// A function is its number, from one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    f: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    may_fail!("cuModuleGetFunction");
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let mut driver = driver();
    let Some(entry) = driver.modules[module as usize - 1].iter().find(|e| e.name == name).cloned()
    else {
        return NOT_FOUND;
    };
    driver.functions.push(entry);
    unsafe { *f = driver.functions.len() as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(_: *mut c_void, _: c_int, _: c_int) -> c_int {
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut *mut c_void, _: c_int) -> c_int {
    unsafe { *pool = std::ptr::dangling_mut() };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolSetAttribute(_: *mut c_void, _: c_int, _: *mut c_void) -> c_int {
    may_fail!("cuMemPoolSetAttribute");
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(_: *mut c_void, _: usize) -> c_int {
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(
    address: *mut u64,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    may_fail!("cuMemAllocAsync");
    let mut driver = driver();
    let used = driver.memory.values().map(|a| a.bytes).sum::<usize>();
    if bytes > setting("STAND_IN_MEMORY", 1 << 30) - used {
        return OUT_OF_MEMORY;
    }
    if stream.is_null() && driver.legacy() != 0 {
        return driver.legacy();
    }
    let Ok(layout) = Layout::from_size_align(bytes.max(1), 256) else { return OUT_OF_MEMORY };
    let p = unsafe { alloc(layout) } as u64;
    // Device memory is not zeroed.
    unsafe { std::ptr::write_bytes(p as *mut u8, 0xCD, bytes) };
    let (_, time) = driver.step(stream as usize);
    driver.memory.insert(p, Allocation { bytes, used: (stream as usize, time) });
    unsafe { *address = p };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: u64, stream: *mut c_void) -> c_int {
    let mut driver = driver();
    if stream.is_null() && driver.legacy() != 0 {
        return driver.legacy();
    }
    if !driver.memory.contains_key(&address) {
        return INVALID_VALUE;
    }
    let now = driver.step(stream as usize);
    driver.touch(address, stream as usize, &now, "freeing");
    let bytes = driver.memory.remove(&address).map_or(0, |a| a.bytes);
    let layout = Layout::from_size_align(bytes.max(1), 256).unwrap();
    unsafe { dealloc(address as *mut u8, layout) };
    0
}
/// Refused beyond `STAND_IN_PINNED` bytes in total.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _: c_uint) -> c_int {
    let mut driver = driver();
    let used = driver.pinned.values().sum::<usize>();
    if used + bytes > setting("STAND_IN_PINNED", 1 << 30) {
        return OUT_OF_MEMORY;
    }
    let p = unsafe { alloc(Layout::from_size_align(bytes, 4096).unwrap()) };
    driver.pinned.insert(p as u64, bytes);
    unsafe { *to = p.cast() };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(p: *mut c_void) -> c_int {
    let mut driver = driver();
    let Some(bytes) = driver.pinned.remove(&(p as u64)) else { return INVALID_VALUE };
    let range = p as u64..p as u64 + bytes as u64;
    if driver.copies.iter().any(|copy| range.contains(&copy.to) || range.contains(&copy.from)) {
        misuse(format!("pinned memory at {p:?} is freed during a copy"));
    }
    unsafe { dealloc(p.cast(), Layout::from_size_align(bytes, 4096).unwrap()) };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let all = setting("STAND_IN_MEMORY", 1 << 30);
    unsafe {
        *total = all;
        *free = all - driver().memory.values().map(|a| a.bytes).sum::<usize>();
    }
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    let done = driver().host_copy(from, bytes, true);
    if done == 0 {
        unsafe { std::ptr::copy(from as *const u8, to.cast(), bytes) };
    }
    done
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    let done = driver().host_copy(to, bytes, false);
    if done == 0 {
        unsafe { std::ptr::copy(from.cast(), to as *mut u8, bytes) };
    }
    done
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    driver().copy_of_host(from, to as u64, bytes, stream as usize, false)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    driver().copy_of_host(to, from as u64, bytes, stream as usize, true)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    driver().submit(stream as usize, Node::Copy { to, from, bytes })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    byte: u8,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    driver().submit(stream as usize, Node::Fill { to, byte, bytes })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    may_fail!("cuStreamCreate");
    let mut driver = driver();
    let handle = driver.handle();
    driver.streams.insert(handle, Stream { blocks: flags == 0, ..Stream::default() });
    unsafe { *stream = handle as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> c_int {
    if stream.is_null() || !driver().streams.contains_key(&(stream as usize)) {
        INVALID_HANDLE
    } else {
        0
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: *mut c_void, flags: *mut c_uint) -> c_int {
    match driver().streams.get(&(stream as usize)) {
        None => INVALID_HANDLE,
        Some(s) => {
            unsafe { *flags = !s.blocks as c_uint };
            0
        }
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(_: *mut c_void, to: *mut *mut c_void) -> c_int {
    unsafe { *to = context() };
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> c_int {
    may_fail!("cuStreamSynchronize");
    let mut driver = driver();
    let Some(s) = driver.streams.get(&(stream as usize)) else { return INVALID_HANDLE };
    if s.capture.is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    if stream.is_null() && driver.legacy() != 0 {
        return driver.legacy();
    }
    let (clock, _) = driver.step(stream as usize);
    driver.host_learns(&clock);
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _: c_uint) -> c_int {
    let mut driver = driver();
    let driver = &mut *driver;
    let Some(e) = driver.events.get(&(event as usize)) else { return INVALID_HANDLE };
    let Some(s) = driver.streams.get_mut(&(stream as usize)) else { return INVALID_HANDLE };
    match (&s.capture, e.capture) {
        (None, None) => s.clock.learn(&e.clock),
        (Some(_), None) => return CAPTURE_ISOLATION,
        // The stream joins the capture.
        (None, Some((capture, ..))) => s.capture = Some((capture, 0)),
        (Some((mine, _)), Some((capture, from, count))) => {
            let c = driver.captures.get_mut(&capture).filter(|_| *mine == capture);
            let Some(c) = c else { return CAPTURE_ISOLATION };
            if c.origin == stream as usize {
                c.joined.insert(from, count);
            }
        }
    }
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) -> c_int {
    assert_eq!(mode, 2, "relaxed: other threads go on");
    let mut driver = driver();
    let number = driver.handle();
    let Some(s) = driver.streams.get_mut(&(stream as usize)) else { return INVALID_HANDLE };
    if stream.is_null() || s.capture.is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    s.capture = Some((number, 0));
    driver.captures.insert(number, Capture { origin: stream as usize, ..Capture::default() });
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    let mut driver = driver();
    let driver = &mut *driver;
    unsafe { *graph = std::ptr::null_mut() };
    let Some(&(number, _)) =
        driver.streams.get(&(stream as usize)).and_then(|s| s.capture.as_ref())
    else {
        return INVALID_VALUE;
    };
    let Some(capture) = driver.captures.remove(&number).filter(|c| c.origin == stream as usize)
    else {
        return INVALID_VALUE;
    };
    let mut joined = true;
    for (&handle, s) in driver.streams.iter_mut() {
        if let Some((_, count)) = s.capture.take_if(|(c, _)| *c == number) {
            joined &= handle == capture.origin || capture.joined.get(&handle) == Some(&count);
        }
    }
    if !joined {
        return CAPTURE_UNJOINED;
    }
    let handle = driver.handle();
    driver.graphs.insert(handle, capture.nodes);
    unsafe { *graph = handle as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    exec: *mut *mut c_void,
    graph: *mut c_void,
    _: u64,
) -> c_int {
    let mut driver = driver();
    let Some(nodes) = driver.graphs.get(&(graph as usize)).cloned() else { return INVALID_HANDLE };
    let handle = driver.handle();
    driver.graphs.insert(handle, nodes);
    unsafe { *exec = handle as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: *mut c_void) -> c_int {
    if driver().graphs.remove(&(graph as usize)).is_some() { 0 } else { INVALID_HANDLE }
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(graph: *mut c_void) -> c_int {
    if driver().graphs.remove(&(graph as usize)).is_some() { 0 } else { INVALID_HANDLE }
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(graph: *mut c_void, stream: *mut c_void) -> c_int {
    let mut driver = driver();
    let Some(nodes) = driver.graphs.get(&(graph as usize)).cloned() else { return INVALID_HANDLE };
    let now = driver.step(stream as usize);
    nodes
        .iter()
        .map(|node| driver.run(stream as usize, &now, node))
        .find(|&e| e != 0)
        .unwrap_or_else(ready)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _: c_uint) -> c_int {
    let mut driver = driver();
    let handle = driver.handle();
    driver
        .events
        .insert(handle, Event { at: Instant::now(), clock: Clock::default(), capture: None });
    unsafe { *event = handle as *mut c_void };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    let mut driver = driver();
    if stream.is_null() && driver.legacy() != 0 {
        return driver.legacy();
    }
    let Some(s) = driver.streams.get(&(stream as usize)) else { return INVALID_HANDLE };
    let capture = s.capture.map(|(number, count)| (number, stream as usize, count));
    let clock = if capture.is_none() { driver.step(stream as usize).0 } else { Clock::default() };
    let Some(e) = driver.events.get_mut(&(event as usize)) else { return INVALID_HANDLE };
    *e = Event { at: Instant::now(), clock, capture };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: *mut c_void) -> c_int {
    wait_for(event)
}
/// Apart from `cuEventSynchronize`, which a test removes from the library.
fn wait_for(event: *mut c_void) -> c_int {
    let mut driver = driver();
    let Some(e) = driver.events.get(&(event as usize)) else { return INVALID_HANDLE };
    if e.capture.is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    let clock = e.clock.clone();
    driver.host_learns(&clock);
    ready()
}
/// Every second query finds that the event has happened: the device takes its time.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: *mut c_void) -> c_int {
    static QUERIES: AtomicUsize = AtomicUsize::new(0);
    match QUERIES.fetch_add(1, SeqCst) % 2 {
        0 => NOT_READY,
        _ => wait_for(event),
    }
}
/// The names before CUDA 12.8 and after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    ms: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> c_int {
    let driver = driver();
    let at = |e: *mut c_void| driver.events.get(&(e as usize)).map(|e| e.at);
    let (Some(start), Some(end)) = (at(start), at(end)) else { return INVALID_HANDLE };
    unsafe { *ms = end.duration_since(start).as_secs_f32() * 1e3 };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    if driver().events.remove(&(event as usize)).is_some() { 0 } else { INVALID_HANDLE }
}
/// `CUlaunchConfig`.
#[repr(C)]
pub struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: *mut c_void,
    attributes: *mut c_void,
    attribute_count: c_uint,
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const Config,
    f: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    may_fail!("cuLaunchKernelEx");
    static FAST: LazyLock<bool> = LazyLock::new(|| std::env::var_os("STAND_IN_FAST").is_some());
    if *FAST {
        return 0;
    }
    let config = unsafe { &*config };
    let [x, y, z] = config.block;
    if config.grid[0] == 0
        || (y, z) != (1, 1)
        || !(1..=1024).contains(&x)
        || config.shared > 227 << 10
        || !extra.is_null()
    {
        return INVALID_VALUE;
    }
    let mut driver = driver();
    let Entry { name, params: sizes } = driver.functions[f as usize - 1].clone();
    // One parameter per parameter of the entry: each must be readable. Those that point to device
    // memory use it.
    let mut touches = vec![];
    for (i, &size) in sizes.iter().enumerate() {
        let p = unsafe { *params.add(i) };
        assert!(!p.is_null());
        if size == 8 {
            touches.extend(driver.base(unsafe { p.cast::<u64>().read_unaligned() }, 1));
        }
    }
    let captured =
        driver.streams.get(&(config.stream as usize)).is_some_and(|s| s.capture.is_some());
    if captured
        && setting("STAND_IN_EARLY", config.attribute_count as usize)
            != config.attribute_count as usize
    {
        return INVALID_VALUE;
    }
    driver.submit(config.stream as usize, Node::Kernel { name, touches })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    let name = match error {
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        CAPTURE_UNJOINED => c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        CAPTURE_ISOLATION => c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        CAPTURE_IMPLICIT => c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        _ => c"CUDA_ERROR_OTHER",
    };
    unsafe { *text = name.as_ptr() };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_: c_int, text: *mut *const c_char) -> c_int {
    unsafe { *text = c"said by the stand-in".as_ptr() };
    0
}
