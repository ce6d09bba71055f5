//! Signals that end the program: the file being written is removed first.
//!
//! Handlers end the program explicitly, with the status that a shell would show, 128 and the number
//! of the signal: the kernel ignores the default action of a signal to process 1, such as a
//! container's only one.
use crate::failure::{Failure, Outcome};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of a temporary file, in the form in which a handler removes it.
#[cfg(unix)]
type Name = std::ffi::CString;
#[cfg(not(unix))]
type Name = std::path::PathBuf;

/// The temporary file being written, or null. Names are never freed: a handler may read one at any
/// time.
static UNFINISHED: AtomicPtr<Name> = AtomicPtr::new(ptr::null_mut());

/// Records the temporary file being written, which a signal removes.
pub(crate) fn set_unfinished(temporary: Option<&Path>) {
    #[cfg(unix)]
    let name = |path: &Path| {
        std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())).ok()
    };
    #[cfg(not(unix))]
    let name = |path: &Path| Some(path.to_owned());
    let name = temporary.and_then(name).map_or(ptr::null_mut(), |name| Box::into_raw(name.into()));
    UNFINISHED.store(name, Ordering::Release);
}
/// Removes the temporary file being written. Async-signal-safe on Unix: one load and one system
/// call.
fn remove_unfinished() {
    // SAFETY: the name is valid, and never freed or changed.
    if let Some(name) = unsafe { UNFINISHED.load(Ordering::Acquire).as_ref() } {
        #[cfg(unix)]
        let _ = rustix::fs::unlink(name.as_c_str());
        #[cfg(not(unix))]
        let _ = std::fs::remove_file(name);
    }
}

/// Held while a file appears or goes, and from a signal until the program ends.
static TURN: Mutex<()> = Mutex::new(());
/// Waits until no signal ends the program. None does so before the guard is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Action of the next signal instead of ending the program.
static STOP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
/// Makes the next Ctrl-C, or another signal to end, call `stop` and let the program end by itself.
/// A second one ends it at once.
pub(crate) fn stop_on_signal(stop: impl FnOnce() + Send + 'static) {
    *STOP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(stop));
}

/// Stops or ends the program.
fn obey(signal: i32) {
    if let Some(stop) = STOP.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return stop();
    }
    let _turn = turn();
    remove_unfinished();
    end(128 + signal);
}

/// Handles the signals that end the program.
#[cfg(unix)]
pub(crate) fn handle() -> Outcome {
    use signal_hook::consts::*;
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::register;
    let failed = |e| Failure::Other(format!("signals: {e}"));
    // A handler that does nothing: writing more than the limit of `ulimit -f` is an error.
    let mut handled = vec![SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ];
    // `nohup` ignores it for the program.
    if !is_ignored(SIGHUP) {
        handled.push(SIGHUP);
    }
    let mut signals = Signals::new(handled).map_err(failed)?;
    let obeyed = move || signals.forever().filter(|&signal| signal != SIGXFSZ).for_each(obey);
    std::thread::Builder::new().name("signals".into()).spawn(obeyed).map_err(failed)?;
    // The thread at fault cannot go on: its handler removes the file. On Linux, where a stack that
    // overflows is another signal, it replaces that of Rust's library, which would be called first
    // and sets the default action: a second thread at fault would end the program meanwhile.
    #[cfg(target_os = "linux")]
    // SAFETY: sets the default action, which runs no code.
    if unsafe { libc::signal(SIGBUS, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(failed(std::io::Error::last_os_error()));
    }
    // SAFETY: `fail` is async-signal-safe: system calls only.
    unsafe { register(SIGBUS, || fail(SIGBUS)) }.map_err(failed)?;
    let abort = || {
        remove_unfinished();
        let _ = signal_hook::low_level::emulate_default_handler(SIGABRT);
    };
    // SAFETY: as above, and the default handler may be emulated in a handler.
    unsafe { register(SIGABRT, abort) }.map_err(failed)?;
    Ok(())
}
#[cfg(unix)]
fn fail(signal: i32) {
    remove_unfinished();
    let why = "error: a file that is read in place was truncated, or its disk failed (SIGBUS)\n";
    let _ = rustix::io::write(std::io::stderr(), why.as_bytes()); // takes no lock
    end(128 + signal);
}
/// Ends the program without the destructors of other threads' data.
#[cfg(unix)]
fn end(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all of its bytes may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: writes the present action, and sets none.
    let read = unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Handles Ctrl-C.
#[cfg(not(unix))]
pub(crate) fn handle() -> Outcome {
    const SIGINT: i32 = 2;
    ctrlc::set_handler(|| obey(SIGINT)).map_err(|e| Failure::Other(format!("signals: {e}")))
}
#[cfg(not(unix))]
fn end(status: i32) -> ! {
    std::process::exit(status)
}
