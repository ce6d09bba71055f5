//! Output of commands: text on standard output, and files that are written whole or not at all.
use crate::failure::{Failure, Outcome};
use crate::{Global, signals};
use indicatif::{ProgressBar, ProgressStyle};
use koel::file::Replacement;
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

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

/// Returns the JSON of a report, with a line for each field.
pub(crate) fn json(report: &impl Serialize) -> Outcome<String> {
    ended(serde_json::to_string_pretty(report))
}
/// Returns the JSON of a report as one line.
pub(crate) fn json_line(report: &impl Serialize) -> Outcome<String> {
    ended(serde_json::to_string(report))
}
fn ended(json: serde_json::Result<String>) -> Outcome<String> {
    Ok(json.map_err(|e| Failure::Other(format!("--json: {e}")))? + "\n")
}

/// Writes a result as JSON if wanted, and prints it as text unless standard output has the JSON.
pub(crate) fn result(global: &Global, report: &impl Serialize, text: &str) -> Outcome {
    match (&global.json, global.json_file()) {
        (None, _) => {}
        (Some(_), None) => return print(&json(report)?),
        (Some(_), Some(file)) => write_file(file, json(report)?.as_bytes())?,
    }
    print(text)
}

/// Tells that a figure was drawn, also with these endings.
#[cfg(feature = "bench")]
pub(crate) fn tell_drawn(folder: &Path, name: &str, endings: &str) {
    let file = folder.join(format!("{name}.png"));
    say(format_args!("drawn: {} (and {endings})", file.display()));
}

/// Progress by steps of which each has a name.
#[cfg(feature = "bench")]
pub(crate) const STEPS: &str = "{bar:30} {pos}/{len} {msg}";
/// Returns a progress bar on standard error, drawn only if that is a terminal.
pub(crate) fn progress_bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Formats 1234567 as 1,234,567.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group).into_owned()).collect::<Vec<_>>().join(",")
}

/// Names of standard output, besides `-`, and of standard error.
const STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
const STANDARD_ERROR: [&str; 3] = ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"];
fn is_one_of(path: &Path, names: [&str; 3]) -> bool {
    cfg!(unix) && names.iter().any(|name| path == Path::new(name))
}
/// Returns whether a path names standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-") || is_one_of(path, STANDARD_OUTPUT)
}
/// Returns whether a path leads to a pipe, a character device, standard output or standard error.
/// These are written through, from the beginning to the end, and never replaced.
pub(crate) fn is_stream(path: &Path) -> bool {
    #[cfg(unix)]
    let is_special = |path: &Path| {
        use std::os::unix::fs::FileTypeExt;
        let kind = fs::metadata(path).map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device())
    };
    #[cfg(not(unix))]
    let is_special = |_: &Path| false;
    is_standard_output(path) || is_one_of(path, STANDARD_ERROR) || is_special(path)
}
/// Opens a stream. Waits for the reader of a named pipe.
fn open_stream(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        // As the shell opened it: a new description of a file would write from its beginning.
        let same = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
        if is_standard_output(path) {
            return same(io::stdout().as_fd());
        }
        if is_one_of(path, STANDARD_ERROR) {
            return same(io::stderr().as_fd());
        }
    }
    File::options().write(true).open(path)
}

/// Writes a file whole or not at all: see [`Replacement`]. Writes a stream through.
///
/// Errors: the folder is missing or not writable. An old file is left unchanged.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Outcome {
    write_with(path, |file| file.write_all(content).map_err(|e| failure(path, &e)))
}

/// Like [`write_file`], with the content that `write` produces. Passes on its errors.
pub(crate) fn write_with(path: &Path, write: impl FnOnce(&mut File) -> Outcome) -> Outcome {
    let failed = |e| failure(path, &e);
    if is_stream(path) {
        return write(&mut open_stream(path).map_err(failed)?);
    }
    let mut new = begin(path).map_err(failed)?;
    let written = write(new.file());
    // The longest part of finishing, during which a signal may end the program.
    let written = written.and_then(|()| new.file().sync_all().map_err(failed));
    let _turn = signals::turn();
    let finished = match written {
        Ok(()) => new.finish().map_err(failed),
        Err(e) => {
            drop(new);
            Err(e)
        }
    };
    signals::set_unfinished(None);
    finished
}
/// Begins a file that a signal removes.
fn begin(path: &Path) -> io::Result<Replacement> {
    let _turn = signals::turn();
    let new = Replacement::begin(path)?;
    signals::set_unfinished(Some(new.temporary()));
    Ok(new)
}
/// Returns the failure to write a file.
pub(crate) fn failure(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Other(cannot(path, error)),
    }
}

/// Fails before the work starts if [`write_file`] could not write this file.
pub(crate) fn check_writable(path: &Path) -> Outcome {
    // Opening a named pipe would end its reader's input.
    if is_stream(path) { Ok(()) } else { check_replaceable(path) }
}
/// Like [`check_writable`], for a file that is not written in one go, or has others beside it.
///
/// Errors: it is a stream.
pub(crate) fn check_replaceable(path: &Path) -> Outcome {
    if path.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: is a folder, expected the name of a file to write",
            path.display()
        )));
    }
    let _turn = signals::turn();
    let begun = match is_stream(path) {
        true => Err(io::Error::other("expected a regular file, or none")),
        false => Replacement::begin(path).map(drop),
    };
    begun.map_err(|e| Failure::Usage(cannot(path, &e)))
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
        let result = write_with(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Failure::ClosedPipe)
        });
        assert!(matches!(result, Err(Failure::ClosedPipe)));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
        assert!(check_writable(folder.path()).is_err());
        #[cfg(unix)]
        {
            let null = Path::new("/dev/null");
            check_writable(null).and_then(|()| write_file(null, b"")).unwrap();
            assert!(check_replaceable(null).is_err());
        }
        assert!(check_writable(&path.join("inside-a-file.json")).is_err());
        assert!(check_folder(&path).is_err());
    }
}
