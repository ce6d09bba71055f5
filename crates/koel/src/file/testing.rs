//! Helpers for tests of files of all kinds.
use super::FileErrorKind;
use super::filed::{Filed, load, load_bytes, open_on, save, save_to, verify};
use crate::device::Device;
use crate::error::{Error, Result};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Returns the bytes of the table's file.
pub(crate) fn bytes<T: Filed>(table: &T) -> Vec<u8> {
    let mut bytes = Cursor::new(vec![]);
    save_to(table, &mut bytes).unwrap();
    bytes.into_inner()
}
/// Returns the range of the section described at this byte of the header.
pub(crate) fn section(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    long(at)..long(at) + long(at + 8)
}
/// Writes the correct checksums.
pub(crate) fn seal(bytes: &mut [u8]) {
    let sections = [2, 2, 3, 5, 3, 4, 3, 4, 5, 4, 5, 6, 5, 5, 6][bytes[12] as usize - 1];
    for at in [64, 88, 112, 136, 160, 328].into_iter().take(sections) {
        let checksum = XxHash3_64::oneshot(&bytes[section(bytes, at)]);
        bytes[at + 16..at + 24].copy_from_slice(&checksum.to_le_bytes());
    }
    let checksum = XxHash3_64::oneshot(&bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&checksum.to_le_bytes());
}
/// Returns the fault of a file.
pub(crate) fn kind(result: Result<impl Sized>) -> FileErrorKind {
    match result.map(|_| ()) {
        Err(Error::File(e)) => e.kind,
        other => panic!("{other:?}"),
    }
}
/// Opens a table from a file that no test changes while the table exists.
pub(crate) fn opened<T: Filed>(device: &Device, path: impl AsRef<Path>) -> Result<T> {
    // SAFETY: as stated above.
    unsafe { open_on(device, path.as_ref()) }
}
/// Opens it on a device of its own.
pub(crate) fn opened_here<T: Filed>(path: impl AsRef<Path>) -> Result<T> {
    opened(&Device::cpu()?, path)
}
/// Saves a table and reads it back: opened on the first device, a CPU, and loaded on all.
pub(crate) fn taken_back<T: Filed>(table: &T, path: &Path, devices: &[&Device]) -> Vec<T> {
    save(table, path).unwrap();
    let written = fs::read(path).unwrap();
    assert_eq!(written, bytes(table), "the same bytes each time");
    let info = super::verify(path).unwrap();
    assert_eq!(info, super::info(path).unwrap());
    assert_eq!((info.kind, info.types, info.bytes), (T::KIND, T::types(), written.len() as u64));
    let opened = opened::<T>(devices[0], path).unwrap();
    verify(&opened).unwrap();
    assert!(opened.file().is_some(), "used in place");
    let mut tables = vec![opened];
    for device in devices {
        tables.push(load(device, path).unwrap());
        tables.push(load_bytes(device, &written).unwrap());
    }
    tables.iter().for_each(|table| assert_eq!(bytes(table), written));
    tables
}
/// Returns a file written when version 1 was new, which must stay readable.
pub(crate) fn old_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table").join(name)
}
