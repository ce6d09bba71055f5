use super::*;
use crate::{Device, Map};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let mut names = entries.map(|name| name.into_string().unwrap()).collect::<Vec<_>>();
    names.sort();
    names
}
fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut new = Replacement::begin(path)?;
    new.file().write_all(content.as_bytes())?;
    new.finish()
}
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[test]
fn mode_and_owner_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    // As any new file: what the mask of the process leaves.
    fs::write(folder.path().join("any"), "").unwrap();
    write(&path, "new").unwrap();
    assert_eq!(mode(&path), mode(&folder.path().join("any")));
    for kept in [0o600, 0o640, 0o664, 0o755] {
        set_mode(&path, kept);
        let mut new = Replacement::begin(&path).unwrap();
        assert_eq!(new.file().metadata().unwrap().mode() & 0o7777, kept, "before it is written");
        new.file().write_all(b"whole").unwrap();
        new.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"whole".to_vec(), kept));
    }
    // Narrowed while it is written.
    let new = Replacement::begin(&path).unwrap();
    set_mode(&path, 0o600);
    new.finish().unwrap();
    assert_eq!(mode(&path), 0o600);
    if !is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    chown(&path, Some(1234), Some(5678)).unwrap();
    write(&path, "theirs").unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), mode(&path)), (1234, 5678, 0o600));
}

/// An access control list allows what the mode does not show.
#[cfg(target_os = "linux")]
#[test]
fn access_control_lists_are_kept() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    fs::write(&path, "old").unwrap();
    set_mode(&path, 0o660);
    // Version 2, then tag, permissions and id: user::rw, user:1234:rw, group::-, mask::rw, other::-.
    let list = [
        (1u16, 6u16, u32::MAX),
        (2, 6, 1234),
        (4, 0, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, allowed, id) in list {
        bytes.extend([tag.to_le_bytes(), allowed.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    if let Err(e) = setxattr(&path, access, &bytes, XattrFlags::empty()) {
        println!("skipped: {e}");
        return;
    }
    let of = |path: &Path| {
        let mut list = [0; 256];
        getxattr(path, access, &mut list[..]).map(|n| list[..n].to_vec()).unwrap_or_default()
    };
    write(&path, "new").unwrap();
    assert_eq!((of(&path), mode(&path)), (bytes.clone(), 0o660));
    // A folder that passes its list on does so to new files only.
    let plain = folder.path().join("plain");
    fs::write(&plain, "old").unwrap();
    set_mode(&plain, 0o600);
    setxattr(folder.path(), default, &bytes, XattrFlags::empty()).unwrap();
    write(&plain, "new").unwrap();
    assert_eq!((of(&plain), mode(&plain)), (vec![], 0o600));
}

#[test]
fn links_stay_and_lead_to_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    fs::write(path("sub/there"), "old").unwrap();
    set_mode(&path("sub/there"), 0o640);
    symlink("sub/there", path("link")).unwrap();
    symlink(path("link"), path("chain")).unwrap();
    symlink("../missing", path("sub/dangling")).unwrap();
    for (link, target) in
        [("link", "sub/there"), ("chain", "sub/there"), ("sub/dangling", "missing")]
    {
        write(&path(link), link).unwrap();
        assert!(fs::symlink_metadata(path(link)).unwrap().is_symlink());
        assert!(fs::symlink_metadata(path(target)).unwrap().is_file());
        assert_eq!(fs::read_to_string(path(target)).unwrap(), link);
    }
    assert_eq!(mode(&path("sub/there")), 0o640);
    symlink("circle", path("circle")).unwrap();
    assert!(write(&path("circle"), "").is_err());
    // A link to a file that has no name any more.
    let file = File::create(path("gone")).unwrap();
    fs::remove_file(path("gone")).unwrap();
    let open = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    assert!(write(&open, "").is_err());
    assert_eq!(names(folder.path()), ["chain", "circle", "link", "missing", "sub"]);
    assert_eq!(names(&path("sub")), ["dangling", "there"]);
}

#[test]
fn special_files_and_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let map = Map::build(&Device::cpu().unwrap(), &[3u32, 5], &[30u32, 50]).unwrap();
    let make = |program: &str, arguments: &[&str]| {
        let made = Command::new(program).args(arguments).current_dir(folder.path()).output();
        made.is_ok_and(|made| made.status.success())
    };
    let mut special = vec!["folder"];
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(make("mkfifo", &["pipe"]));
    special.push("pipe");
    if make("mknod", &["null", "c", "1", "3"]) {
        special.push("null");
    } else {
        println!("skipped: no right to make a device");
    }
    symlink("pipe", folder.path().join("to-pipe")).unwrap();
    let before = names(folder.path());
    for name in special.into_iter().chain(["to-pipe"]) {
        let path = folder.path().join(name);
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let error = map.save(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: cannot be written: ", path.display())), "{error}");
        assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), kind);
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn names_of_every_length_and_alphabet() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let long = "b".repeat(255);
    let wide = "\u{20ac}".repeat(85);
    let bytes = OsStr::from_bytes(b"\xff\xfe.koel");
    for name in [OsStr::new("t"), OsStr::new(&long), OsStr::new(&wide), bytes] {
        let path = folder.path().join(name);
        let new = match Replacement::begin(&path) {
            Ok(new) => new,
            Err(e) => panic!("{}: {e}", name.display()),
        };
        let temporary = new.temporary().file_name().unwrap().to_owned();
        assert!(is_temporary(&temporary) && temporary.len() < 140, "{}", temporary.display());
        if new.finish().is_err() {
            println!("skipped: this file system has no file named {}", name.display());
        }
    }
    for other in [
        ".t.koel.1234.0",
        "t.koel",
        ".koel-part",
        ".a.b.koel-part",
        ".a.0123456789abcde-.koel-part",
    ] {
        assert!(!is_temporary(OsStr::new(other)), "{other}");
    }
}

/// What stands at a temporary name is neither followed, changed nor removed.
#[test]
fn planted_names_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("victim"), "theirs").unwrap();
    let planted = [".t.0123456789abcdef.koel-part", ".t.abcdef0123456789.koel-part"];
    symlink("victim", path(planted[0])).unwrap();
    symlink("nothing", path(planted[1])).unwrap();
    fs::write(path(".t.koel.1.0"), "theirs").unwrap();
    for name in planted {
        assert_eq!(create(&path(name), false).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    assert_eq!(create(&path("victim"), false).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(Command::new("mkfifo").arg(path(".t.aaaaaaaaaaaaaaaa.koel-part")).status().is_ok());
    let before = names(folder.path());
    write(&path("victim-2"), "mine").unwrap();
    fs::remove_file(path("victim-2")).unwrap();
    assert_eq!(names(folder.path()), before);
    assert_eq!(fs::read_to_string(path("victim")).unwrap(), "theirs");
}

#[test]
fn leftovers_of_dead_processes_are_collected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let leftover = folder.path().join(".other.csv.0123456789abcdef.koel-part");
    fs::write(&leftover, "half").unwrap();
    let (first, second) = (Replacement::begin(&path).unwrap(), Replacement::begin(&path).unwrap());
    // Those in use are held.
    assert_eq!(names(folder.path()).len(), 2);
    let held = File::create(&leftover).unwrap();
    held.lock().unwrap();
    write(&path, "third").unwrap();
    assert_eq!(names(folder.path()).len(), 4);
    drop(held);
    drop(first);
    second.finish().unwrap();
    drop(Replacement::begin(&path).unwrap());
    assert_eq!(names(folder.path()), ["t.koel"]);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn concurrent_writers_each_write_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let contents = (0..4).map(|i| i.to_string().repeat(100_000)).collect::<Vec<String>>();
    std::thread::scope(|scope| {
        for content in &contents {
            scope.spawn(|| (0..5).for_each(|_| write(&path, content).unwrap()));
        }
    });
    assert!(contents.contains(&fs::read_to_string(&path).unwrap()));
    assert_eq!(names(folder.path()), ["t.koel"]);
}
