//! A stand-in for the CUDA driver's library, for machines without one: host memory as device memory, everything done at
//! once, kernels counted but not run. `device.rs` compiles it and runs itself against it, so that koel's use of the driver
//! is tested without a GPU: order of calls, sizes, errors.
//!
//! Environment: `STAND_IN_VERSION` (CUDA version, 12000), `STAND_IN_DEVICES` (1), `STAND_IN_CAPABILITY` (90), `STAND_IN_MEMORY`
//! (bytes in all, 2^30), `STAND_IN_FAULT` (the name of a kernel after which everything fails as after a fault).
#![allow(non_snake_case, clippy::missing_safety_doc, reason = "the driver's names, called by the driver's contract")]
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;
const INVALID_IMAGE: c_int = 200;
const INVALID_CONTEXT: c_int = 201;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;

static CURRENT: AtomicBool = AtomicBool::new(false);
static FAULTED: AtomicBool = AtomicBool::new(false);
static MEMORY: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PTX: Mutex<String> = Mutex::new(String::new());

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
/// The state that every call but the first few needs.
fn ready() -> c_int {
    if !CURRENT.load(SeqCst) {
        INVALID_CONTEXT
    } else if FAULTED.load(SeqCst) {
        ILLEGAL_ADDRESS
    } else {
        0
    }
}
fn with_memory<R>(f: impl FnOnce(&mut HashMap<u64, usize>) -> R) -> R {
    f(MEMORY.lock().unwrap().get_or_insert_default())
}
/// Whether `bytes` from `at` lie in one allocation.
fn is_inside(at: u64, bytes: usize) -> bool {
    with_memory(|m| m.iter().any(|(&base, &len)| at >= base && at + bytes as u64 <= base + len as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> c_int {
    if setting("STAND_IN_DEVICES", 1) == 0 { NO_DEVICE } else { 0 }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    unsafe { *version = setting("STAND_IN_VERSION", 12000) as c_int };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    unsafe { *count = setting("STAND_IN_DEVICES", 1) as c_int };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    unsafe { *device = ordinal };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, _: c_int) -> c_int {
    let text = b"Stand-in GPU\0";
    assert!(len as usize >= text.len());
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
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
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _: c_int) -> c_int {
    unsafe { *context = std::ptr::dangling_mut() };
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    CURRENT.store(!context.is_null(), SeqCst);
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_char) -> c_int {
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy().into_owned();
    if !text.contains(".visible .entry") {
        return INVALID_IMAGE;
    }
    let target = if setting("STAND_IN_CAPABILITY", 90) >= 90 { ".target sm_90" } else { ".target sm_75" };
    assert!(text.contains(target), "{target}");
    *PTX.lock().unwrap() = text;
    unsafe { *module = std::ptr::dangling_mut() };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(_: *mut c_void) -> c_int {
    0
}
/// A function is the number of its name, from one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(f: *mut *mut c_void, _: *mut c_void, name: *const c_char) -> c_int {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    if !PTX.lock().unwrap().contains(&format!(".entry {name}(")) {
        return NOT_FOUND;
    }
    let mut names = NAMES.lock().unwrap();
    names.push(name);
    unsafe { *f = names.len() as *mut c_void };
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
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(_: *mut c_void, _: usize) -> c_int {
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, _: *mut c_void) -> c_int {
    let used = with_memory(|m| m.values().sum::<usize>());
    if bytes > setting("STAND_IN_MEMORY", 1 << 30) - used {
        return OUT_OF_MEMORY;
    }
    let Ok(layout) = Layout::from_size_align(bytes.max(1), 256) else { return OUT_OF_MEMORY };
    let p = unsafe { alloc(layout) } as u64;
    // Device memory is not zeroed.
    unsafe { std::ptr::write_bytes(p as *mut u8, 0xCD, bytes) };
    with_memory(|m| m.insert(p, bytes));
    unsafe { *address = p };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: u64, _: *mut c_void) -> c_int {
    match with_memory(|m| m.remove(&address)) {
        None => INVALID_VALUE,
        Some(bytes) => {
            let layout = Layout::from_size_align(bytes.max(1), 256).unwrap();
            unsafe { dealloc(address as *mut u8, layout) };
            0
        }
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let all = setting("STAND_IN_MEMORY", 1 << 30);
    unsafe {
        *total = all;
        *free = all - with_memory(|m| m.values().sum::<usize>());
    }
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    if bytes != 0 && !is_inside(from, bytes) {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy(from as *const u8, to.cast(), bytes) };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    if bytes != 0 && !is_inside(to, bytes) {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy(from.cast(), to as *mut u8, bytes) };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _: *mut c_void) -> c_int {
    if bytes != 0 && !(is_inside(to, bytes) && is_inside(from, bytes)) {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, byte: u8, bytes: usize, _: *mut c_void) -> c_int {
    if bytes != 0 && !is_inside(to, bytes) {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    assert_eq!(flags, 0, "streams must be blocking: memory is freed on the legacy stream");
    unsafe { *stream = std::ptr::dangling_mut() };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_: *mut c_void) -> c_int {
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_: *mut c_void) -> c_int {
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(_: *mut c_void, event: *mut c_void, _: c_uint) -> c_int {
    if event.is_null() { INVALID_VALUE } else { ready() }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _: c_uint) -> c_int {
    unsafe { *event = Box::into_raw(Box::new(Instant::now())).cast() };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut c_void, _: *mut c_void) -> c_int {
    unsafe { *event.cast::<Instant>() = Instant::now() };
    ready()
}
#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(_: *mut c_void) -> c_int {
    ready()
}
/// Before CUDA 12.8 and after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(ms: *mut f32, start: *mut c_void, end: *mut c_void) -> c_int {
    let (start, end) = unsafe { (*start.cast::<Instant>(), *end.cast::<Instant>()) };
    unsafe { *ms = end.duration_since(start).as_secs_f32() * 1e3 };
    ready()
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    drop(unsafe { Box::from_raw(event.cast::<Instant>()) });
    0
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
    let config = unsafe { &*config };
    let [x, y, z] = config.block;
    if config.grid[0] == 0 || (y, z) != (1, 1) || !(1..=1024).contains(&x) || config.shared > 227 << 10 || !extra.is_null() {
        return INVALID_VALUE;
    }
    let name = NAMES.lock().unwrap()[f as usize - 1].clone();
    // As many parameters as the entry has: each must be readable.
    let ptx = PTX.lock().unwrap();
    let entry = ptx.split(&format!(".entry {name}(")).nth(1).unwrap().split(')').next().unwrap();
    for i in 0..entry.matches(".param").count() {
        assert!(!unsafe { *params.add(i) }.is_null());
    }
    if std::env::var("STAND_IN_FAULT").is_ok_and(|k| k == name) {
        FAULTED.store(true, SeqCst);
    }
    0
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    let name = match error {
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
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
