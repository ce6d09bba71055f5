//! Output of commands: text on standard output, and files that are written whole or not at all.
use crate::failure::{Failure, Outcome};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};

/// Prints to standard output. Drops styles unless it is a terminal.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::ClosedPipe),
        Err(e) => Err(Failure::Other(format!("standard output: {e}"))),
    }
}

/// Prints a message for people to standard error. Ignores write errors there.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints why a command ends early, and returns its exit status.
pub(crate) fn report(failure: Failure) -> ExitCode {
    let (status, message) = match failure {
        Failure::Usage(message) => (2, message),
        Failure::Other(message) => (1, message),
        Failure::Reported(status) => return status.into(),
        Failure::ClosedPipe => return ExitCode::SUCCESS,
    };
    let style = anstyle::AnsiColor::Red.on_default().bold();
    say(format_args!("{style}error{style:#}: {message}"));
    status.into()
}

/// Formats 1234567 as 1,234,567.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group).into_owned()).collect::<Vec<_>>().join(",")
}

/// The file being written now.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Action of the next Ctrl-C instead of ending the program.
static STOP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
/// Makes the next Ctrl-C call `stop` and let the program end by itself. A second Ctrl-C ends it at
/// once.
pub(crate) fn stop_on_interrupt(stop: impl FnOnce() + Send + 'static) {
    *STOP.lock().unwrap_or_else(|e| e.into_inner()) = Some(Box::new(stop));
}

/// Makes Ctrl-C remove the half-written file and exit with the shell's status for it, 130.
pub(crate) fn remove_unfinished_on_interrupt() -> Outcome {
    ctrlc::set_handler(|| {
        if let Some(stop) = STOP.lock().unwrap_or_else(|e| e.into_inner()).take() {
            return stop();
        }
        // The lock is held until exit, so no other file is begun.
        let unfinished = unfinished();
        if let Some(path) = &*unfinished {
            let _ = fs::remove_file(path);
        }
        std::process::exit(130);
    })
    .map_err(|e| Failure::Other(format!("interrupts: {e}")))
}

/// Writes a temporary file next to `path`, then renames it, so that `path` is whole or absent.
///
/// Errors: the folder is missing or not writable. An old file is left unchanged.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Outcome {
    replace(path, |beside| fs::write(beside, content).and_then(|()| fs::rename(beside, path)))
        .map_err(|e| Failure::Other(cannot(path, &e)))
}

/// Like [`write_file`], with the content that `write` produces. Passes on its errors.
pub(crate) fn write_with(path: &Path, write: impl FnOnce(&mut File) -> Outcome) -> Outcome {
    let mut outcome = Ok(());
    let replaced = replace(path, |beside| {
        let mut file = File::create(beside)?;
        outcome = write(&mut file);
        if outcome.is_ok() {
            file.sync_all()?;
            drop(file);
            fs::rename(beside, path)?;
        }
        Ok(())
    });
    outcome.and(replaced.map_err(|e| Failure::Other(cannot(path, &e))))
}

/// Fails before the work starts if [`write_file`] could not write this file.
pub(crate) fn check_writable(path: &Path) -> Outcome {
    if path.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: is a folder, expected the name of a file to write",
            path.display()
        )));
    }
    replace(path, |beside| fs::write(beside, []).and_then(|()| fs::remove_file(beside)))
        .map_err(|e| Failure::Usage(cannot(path, &e)))
}

/// Creates the folder if it is missing. Fails if files cannot be written in it.
pub(crate) fn check_folder(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|e| {
        Failure::Usage(format!("{}: cannot create this folder: {e}", folder.display()))
    })?;
    check_writable(&folder.join("figure.svg"))
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}

/// Calls `write` with the path of a temporary file next to `path`, then removes that file if
/// `write` has not renamed it.
///
/// Errors: `path` is a device or a pipe, which renaming would replace with a file.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("expected a regular file, or none"));
    }
    let name = path.file_name().ok_or_else(|| io::Error::other("expected the name of a file"))?;
    let beside = path.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
    *unfinished() = Some(beside.clone());
    let written = write(&beside);
    let _ = fs::remove_file(&beside);
    *unfinished() = None;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<String>>();
        names.sort();
        names
    }

    #[test]
    fn files_appear_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        check_writable(&path).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        write_with(&path, |file| file.write_all(b"three").map_err(Failure::input)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_file(&path, b"old").unwrap();
        let result = replace(&path, |beside| {
            fs::write(beside, b"half")?;
            Err(std::io::Error::other("disk full"))
        });
        assert_eq!(result.unwrap_err().to_string(), "disk full");
        let result = write_with(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Failure::ClosedPipe)
        });
        assert!(matches!(result, Err(Failure::ClosedPipe)));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
        assert!(check_writable(folder.path()).is_err());
        #[cfg(unix)]
        assert!(
            check_writable(Path::new("/dev/null")).is_err()
                && write_file(Path::new("/dev/null"), b"").is_err()
        );
        assert!(check_writable(&path.join("inside-a-file.json")).is_err());
        assert!(check_folder(&path).is_err());
    }
}
