//! Replacing files whole: the one way in which koel and its program write files.
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use tempfile::{Builder, NamedTempFile};

#[cfg(all(test, unix))]
mod tests;

/// Random letters and digits in the name of a temporary file.
const RANDOM: usize = 16;
/// End of the name of a temporary file.
const ENDING: &str = ".koel-part";
/// Maximum number of bytes of the target's name in that of its temporary file: short enough for
/// every file system, long enough to recognise the file.
const OF_TARGET: usize = 96;
/// Maximum number of links that lead to a file, as on Linux.
const MAX_LINKS: u32 = 40;

/// The next contents of a file, written into a temporary file in the same folder.
///
/// The file at the path is whole at all times: it has its previous contents until
/// [`finish`](Self::finish) and the new ones afterwards. A symbolic link stays, and the file that
/// it leads to is replaced. An existing file passes on its mode, its owner, its group and, on
/// Linux, its access control list. Its other hard links keep the previous contents.
///
/// The temporary file has a random name, `.NAME.RANDOM.koel-part`. Dropping the replacement removes
/// it. A process that is killed leaves it behind: it holds a lock on the file as long as it lives,
/// and the next replacement in the same folder removes the files that nobody holds. This also works
/// between containers, and between machines whose file system shares locks.
#[derive(Debug)]
pub struct Replacement {
    temporary: NamedTempFile<File>,
    /// Without links.
    target: PathBuf,
}
impl Replacement {
    /// Creates the temporary file.
    ///
    /// Errors: `path` is not a regular file (a folder, device or pipe), may not be written, or
    /// belongs to a user or group to whom this process cannot give files; the folder is missing or
    /// may not be written.
    pub fn begin(path: &Path) -> io::Result<Replacement> {
        let target = without_links(path)?;
        let name = target.file_name().ok_or_else(|| io::Error::other("expected a file name"))?;
        let old = existing(path, &target)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        collect(folder);
        let name = name.to_string_lossy();
        let prefix = format!(".{}.", &name[..name.floor_char_boundary(OF_TARGET)]);
        let mut named = Builder::new();
        named.prefix(&prefix).rand_bytes(RANDOM).suffix(ENDING);
        let temporary = named.make_in(folder, |path| create(path, old.is_some()))?;
        if let Some(old) = &old {
            system::take_over(old, temporary.as_file())?;
        }
        // Like the path of the temporary file, independent of later changes of the current folder.
        let target = temporary.path().with_file_name(target.file_name().unwrap_or_default());
        Ok(Replacement { temporary, target })
    }
    /// Returns the path of the temporary file.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }
    /// Returns the temporary file, to be written.
    pub fn file(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }
    /// Waits until the contents are on the disk, then puts them in place of the previous ones.
    ///
    /// Errors: as for [`begin`](Self::begin), whose conditions may have changed; a full or failing
    /// disk. The previous contents are unchanged, unless only the folder could not be synchronised.
    pub fn finish(self) -> io::Result<()> {
        let Replacement { temporary, target } = self;
        temporary.as_file().sync_all()?;
        // Its mode may have been narrowed meanwhile.
        if let Some(old) = existing(&target, &target)? {
            system::take_over(&old, temporary.as_file())?;
        }
        // The lock ends with the returned file, after the temporary name has gone.
        temporary.persist(&target).map_err(|e| e.error)?;
        system::sync_folder(target.parent().unwrap_or(Path::new(".")))
    }
}

/// Follows the links at the end of a path, also to a missing file.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    // Refuses what the system refuses: circles, and links of strangers in shared folders.
    if_found(fs::metadata(path))?;
    let mut target = path.to_owned();
    for _ in 0..=MAX_LINKS {
        let Ok(next) = fs::read_link(&target) else { return Ok(target) };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links"))
}

/// Opens the file to be replaced; `None` if there is none. `path` leads to `target` by links.
fn existing(path: &Path, target: &Path) -> io::Result<Option<File>> {
    let exists = path.exists();
    let Some(metadata) = if_found(fs::symlink_metadata(target))? else {
        // Links in /proc lead to files that have no name any more.
        let named = format!("leads to a file that is not at {}", target.display());
        return if exists { Err(io::Error::other(named)) } else { Ok(None) };
    };
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("expected a regular file, or none"));
    }
    let mut options = OpenOptions::new();
    system::without_following(&mut options);
    if_found(options.write(true).open(target))
}
fn if_found<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Creates and locks a temporary file. Its owner alone may read it while `private`.
///
/// Errors: `AlreadyExists` asks for another name.
fn create(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    system::without_following(&mut options);
    system::set_private(&mut options, private);
    let file = options.write(true).create_new(true).open(path)?;
    // Another process may have come first and be about to remove it. File systems without locks
    // never come to that.
    let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    if is_taken || system::is_removed(&file) {
        return Err(ErrorKind::AlreadyExists.into());
    }
    Ok(file)
}

/// Removes the temporary files of processes that ended before they could.
fn collect(folder: &Path) {
    // Reads 1,000 names for each file written, on average: searching a large folder every time
    // would take longer than the writing.
    static NAMES: AtomicI64 = AtomicI64::new(0);
    if NAMES.fetch_add(1000, Relaxed) < 0 {
        return;
    }
    let mut read = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        read += 1;
        if is_temporary(&entry.file_name()) {
            // Another process may collect at the same time, or the file may be another user's.
            let _ = remove_unless_held(&entry.path());
        }
    }
    NAMES.fetch_sub(read, Relaxed);
}
/// Returns whether [`Replacement::begin`] makes such names.
fn is_temporary(name: &OsStr) -> bool {
    let parts = || name.to_str()?.strip_prefix('.')?.strip_suffix(ENDING)?.rsplit_once('.');
    parts().is_some_and(|(_, random)| {
        random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}
fn remove_unless_held(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    system::without_following(&mut options);
    let file = options.write(true).open(path)?;
    file.try_lock()?;
    // The file may have been renamed before its lock ended.
    if system::is_same(&file.metadata()?, &fs::symlink_metadata(path)?) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(unix)]
mod system {
    use super::*;
    use rustix::fs::OFlags;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};

    /// Neither follows a link at the end of the path, nor waits for the reader of a pipe.
    pub(super) fn without_following(options: &mut OpenOptions) {
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    pub(super) fn set_private(options: &mut OpenOptions, private: bool) {
        options.mode(if private { 0o600 } else { 0o666 });
    }
    pub(super) fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
    pub(super) fn is_removed(file: &File) -> bool {
        file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Gives a new file the owner, the access control list and the mode of an old one.
    pub(super) fn take_over(old: &File, new: &File) -> io::Result<()> {
        let (of_old, of_new) = (old.metadata()?, new.metadata()?);
        let (user, group) = (of_old.uid(), of_old.gid());
        if (user, group) != (of_new.uid(), of_new.gid()) {
            fchown(new, Some(user), Some(group)).map_err(|e| {
                let owner = format!("it belongs to user {user} and group {group}");
                let why = format!("{owner}, to whom a new file cannot be given: {e}");
                io::Error::new(e.kind(), why)
            })?;
        }
        #[cfg(target_os = "linux")]
        take_over_list(old, new)?;
        if of_old.mode() != new.metadata()?.mode() {
            new.set_permissions(of_old.permissions())?;
        }
        Ok(())
    }
    /// Copies the access control list. Without one, a list inherited from the folder would allow
    /// more than the mode of the old file did.
    #[cfg(target_os = "linux")]
    fn take_over_list(old: &File, new: &File) -> io::Result<()> {
        use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
        const NAME: &str = "system.posix_acl_access";
        let mut list = [0; 1 << 16];
        let list_of = |file, list: &mut [u8]| fgetxattr(file, NAME, list).ok();
        if let Some(bytes) = list_of(old, &mut list) {
            fsetxattr(new, NAME, &list[..bytes], XattrFlags::empty())?;
        } else if list_of(new, &mut list).is_some() {
            fremovexattr(new, NAME)?;
        }
        Ok(())
    }

    /// Waits until a renamed file has its name on the disk. Some file systems know no such wait,
    /// and a folder may be unreadable.
    pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
        let Ok(folder) = File::open(folder) else { return Ok(()) };
        folder.sync_all().or_else(|e| match e.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied => {
                Ok(())
            }
            _ => Err(e),
        })
    }
}

/// Systems on which a file inherits its access from the folder, and files have no stable identity.
#[cfg(not(unix))]
mod system {
    use super::*;

    pub(super) fn without_following(_: &mut OpenOptions) {}
    pub(super) fn set_private(_: &mut OpenOptions, _: bool) {}
    pub(super) fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
        true
    }
    pub(super) fn is_removed(_: &File) -> bool {
        false
    }
    pub(super) fn take_over(_: &File, _: &File) -> io::Result<()> {
        Ok(())
    }
    pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }
}
