//! Keeps inputs and outputs apart: no output may replace an input or another output. Every command
//! runs this check before it reads or writes anything.
use crate::failure::{Failure, Outcome};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where an output goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output<'a> {
    /// A file.
    File(&'a Path),
    /// Files in a folder, under names that the command chooses, with these extensions.
    #[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only benchmarks need it"))]
    Folder(&'a Path, &'a [&'a str]),
}

/// Files that a command reads and writes, each with the argument that names it.
#[derive(Default, Debug)]
pub(crate) struct Files<'a> {
    inputs: Vec<(&'a str, &'a Path)>,
    outputs: Vec<(&'a str, Output<'a>)>,
}
impl<'a> Files<'a> {
    /// Adds an input file.
    pub(crate) fn reads(mut self, argument: &'a str, file: &'a Path) -> Files<'a> {
        self.inputs.push((argument, file));
        self
    }
    /// Adds an input file, if there is one.
    pub(crate) fn may_read(self, argument: &'a str, file: Option<&'a Path>) -> Files<'a> {
        file.into_iter().fold(self, |files, file| files.reads(argument, file))
    }
    /// Adds an output file, if there is one.
    pub(crate) fn writes(mut self, argument: &'a str, file: Option<&'a Path>) -> Files<'a> {
        self.outputs.extend(file.map(|file| (argument, Output::File(file))));
        self
    }
    /// Adds an output folder, if there is one, and the extensions of the files written into it.
    #[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only benchmarks need it"))]
    pub(crate) fn writes_into(
        mut self,
        argument: &'a str,
        folder: Option<&'a Path>,
        endings: &'a [&'a str],
    ) -> Files<'a> {
        self.outputs.extend(folder.map(|folder| (argument, Output::Folder(folder, endings))));
        self
    }
    /// Adds the file of `--json`, or where standard output goes.
    pub(crate) fn writes_json(self, json: Option<&'a Path>) -> Files<'a> {
        self.writes("--json", json)
    }

    /// Checks that no output is also an input or another output, and that no pipe is two inputs. A
    /// file named `-` is standard input or output; devices such as terminals may be both.
    ///
    /// Errors: two of them are the same file, whatever their names. Files are compared by device
    /// and inode where the system has them, else by canonical path.
    pub(crate) fn check_apart(&self) -> Outcome {
        let mut inputs: HashMap<Identity, (&str, &Path)> = HashMap::new();
        for &(argument, file) in &self.inputs {
            let opened = if file == Path::new("-") { Path::new("/dev/stdin") } else { file };
            let identity = Identity::of(opened);
            let is_read_once = file == Path::new("-")
                || fs::metadata(file).is_ok_and(|file| !file.is_file() && !file.is_dir());
            match inputs.get(&identity) {
                Some(&other) if is_read_once => {
                    return Err(clash((argument, file), other, "a stream is read once"));
                }
                Some(_) => {}
                None => _ = inputs.insert(identity, (argument, file)),
            }
        }
        let mut outputs: HashMap<Identity, (&str, &Path)> = HashMap::new();
        let mut standard_output = None;
        for &(argument, output) in &self.outputs {
            let Output::File(file) = output else { continue };
            if file == Path::new("-")
                && let Some(other) = standard_output.replace(argument)
            {
                return Err(Failure::Usage(format!(
                    "{other} and {argument} are both standard output, expected a file for one"
                )));
            }
            let opened = if file == Path::new("-") { Path::new("/dev/stdout") } else { file };
            if is_device(opened) {
                continue;
            }
            let identity = Identity::of(opened);
            if let Some(&input) = inputs.get(&identity) {
                return Err(clash((argument, file), input, "an output must not replace an input"));
            }
            if let Some(other) = outputs.insert(identity, (argument, file)) {
                return Err(clash((argument, file), other, "one output must not replace another"));
            }
        }
        self.check_folders()
    }
    /// Errors: a file might have the name of one that is written into a folder.
    fn check_folders(&self) -> Outcome {
        let is_file = |&(argument, output): &(&'a str, Output<'a>)| match output {
            Output::File(file) => Some((argument, file)),
            Output::Folder(..) => None,
        };
        let others = self.inputs.iter().copied().chain(self.outputs.iter().filter_map(is_file));
        let others = others.collect::<Vec<_>>();
        for &(argument, output) in &self.outputs {
            let Output::Folder(folder, endings) = output else { continue };
            if let Some((other, file)) =
                others.iter().find(|(_, file)| is_within(file, folder, endings))
            {
                return Err(Failure::Usage(format!(
                    "{argument} {} and {other} {}: files named .{} are written into this folder, \
                     expected a file in another folder or with another extension",
                    folder.display(),
                    file.display(),
                    endings.join(", .")
                )));
            }
        }
        Ok(())
    }
}

/// Returns whether a file is a terminal, a socket or another device without contents of its own.
fn is_device(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = fs::metadata(file).map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| kind.is_char_device() || kind.is_socket())
    }
    #[cfg(not(unix))]
    {
        file == Path::new("/dev/stdout")
    }
}
fn clash((argument, file): (&str, &Path), (other, its): (&str, &Path), why: &str) -> Failure {
    let (file, its) = (file.display(), its.display());
    Failure::Usage(format!("{argument} {file} and {other} {its} are the same file: {why}"))
}

/// Returns whether a file, or its link target, is in a folder and has one of these extensions.
fn is_within(file: &Path, folder: &Path, endings: &[&str]) -> bool {
    let linked = fs::canonicalize(file).ok();
    [Some(file), linked.as_deref()].into_iter().flatten().any(|file| {
        let ending = file
            .extension()
            .is_some_and(|e| endings.iter().any(|ending| e.eq_ignore_ascii_case(ending)));
        ending && Identity::of(parent_of(file)) == Identity::of(folder)
    })
}
fn parent_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Identity of a file, independent of its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Identity {
    /// Device and inode. Hard and symbolic links share those of their target.
    #[cfg(unix)]
    Inode(u64, u64),
    /// Canonical path. For a missing file: its name in the canonical folder.
    Path(PathBuf),
}
impl Identity {
    fn of(file: &Path) -> Identity {
        #[cfg(unix)]
        if let Ok(metadata) = fs::metadata(file) {
            use std::os::unix::fs::MetadataExt;
            return Identity::Inode(metadata.dev(), metadata.ino());
        }
        if let Ok(path) = fs::canonicalize(file) {
            return Identity::Path(path);
        }
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.into());
        let folder = absolute.parent().and_then(|parent| fs::canonicalize(parent).ok());
        match (folder, absolute.file_name()) {
            (Some(folder), Some(name)) => Identity::Path(folder.join(name)),
            _ => Identity::Path(absolute),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(files: &Files<'_>) -> String {
        match files.check_apart() {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_are_the_same_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "a").unwrap();
        fs::create_dir(path("sub")).unwrap();
        let (a, b, new) = (path("a"), path("b"), path("new"));
        let apart =
            |to: &Path| Files::default().reads("KEYS", &a).writes("-o", Some(to)).check_apart();
        apart(&b).unwrap();
        apart(&new).unwrap();
        apart(&path("missing/a")).unwrap();
        let mut names = vec![path("a"), path("sub/../a"), path("./a")];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a", path("symbolic")).unwrap();
            fs::hard_link(path("a"), path("hard")).unwrap();
            std::os::unix::fs::symlink(".", path("here")).unwrap();
            names.extend([path("symbolic"), path("hard"), path("here/a")]);
        }
        for name in names {
            let message = refused(&Files::default().reads("KEYS", &a).writes("-o", Some(&name)));
            let both = format!("-o {} and KEYS {} are the same file", name.display(), a.display());
            assert_eq!(message, format!("{both}: an output must not replace an input"));
        }
        // Two outputs that do not exist yet.
        let other = path("sub/../new");
        let message =
            refused(&Files::default().writes("--out", Some(&new)).writes_json(Some(&other)));
        assert!(message.starts_with("--json ") && message.contains(" and --out "), "{message}");
        Files::default().reads("A", &a).reads("B", &a).check_apart().unwrap();
        let standard = Path::new("-");
        Files::default().writes_json(Some(standard)).reads("A", standard).check_apart().unwrap();
        let both = Files::default().writes("--out", Some(standard)).writes_json(Some(standard));
        assert!(refused(&both).starts_with("--out and --json are both standard output"));
    }

    #[test]
    fn files_are_kept_out_of_folders_of_figures() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let figures = path("figures");
        for (name, is_apart) in [
            ("figures/a.svg", false),
            ("figures/a.CSV", true),
            ("a.svg", true),
            ("figures/sub/a.svg", true),
        ] {
            let file = path(name);
            let files = Files::default().writes_into("--plot", Some(&figures), &["svg", "png"]);
            let of_input = Files { outputs: files.outputs.clone(), ..Files::default() }
                .reads("--peers", &file);
            for (argument, files) in
                [("--json", files.writes_json(Some(&file))), ("--peers", of_input)]
            {
                match is_apart {
                    true => files.check_apart().unwrap(),
                    false => assert!(refused(&files).contains(argument), "{name}"),
                }
            }
        }
    }
}
