//! Formats of files of numbers, told by names and options.
use super::faults::in_file;
use crate::failure::Outcome;
use crate::frames::SCANS;
use clap::ValueEnum;
use koel::file::Width;
use std::fs;
use std::path::Path;

/// `--format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FormatName {
    /// Text with commas.
    Csv,
    /// Text with tabs.
    Tsv,
    /// A NumPy array.
    Npy,
    /// Little-endian words.
    U32,
    U64,
    U128,
}

/// Format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Little-endian words.
    Raw(Width),
    Npy,
    /// Text whose fields end at this byte.
    Csv(u8),
    /// A point cloud or a mesh.
    Scan,
}
impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Csv => Format::Csv(b','),
            FormatName::Tsv => Format::Csv(b'\t'),
            FormatName::Npy => Format::Npy,
            FormatName::U32 => Format::Raw(Width::U32),
            FormatName::U64 => Format::Raw(Width::U64),
            FormatName::U128 => Format::Raw(Width::U128),
        }
    }
}
impl Format {
    /// Returns the format that the extension tells.
    pub(super) fn by_name(file: &Path) -> Option<Format> {
        let extension =
            file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        Some(match extension.as_str() {
            "u32" => Format::Raw(Width::U32),
            "u64" => Format::Raw(Width::U64),
            "u128" => Format::Raw(Width::U128),
            "npy" => Format::Npy,
            "csv" => Format::Csv(b','),
            "tsv" => Format::Csv(b'\t'),
            scan if SCANS.extensions.contains(&scan) => Format::Scan,
            _ => return None,
        })
    }
    /// Returns the format that the extension tells, else `given`, else CSV for a stream.
    ///
    /// Errors: the format is unknown.
    pub(super) fn of(file: &Path, given: Option<FormatName>) -> Outcome<Format> {
        if let Some(format) = Format::by_name(file).or(given.map(Format::from)) {
            return Ok(format);
        }
        if is_stream(file) {
            return Ok(Format::Csv(b','));
        }
        let expected = "expected a file named .u32, .u64, .u128, .npy, .csv or .tsv, or --format, \
                        or a point cloud or mesh";
        let scans = SCANS.extensions.join(", .");
        Err(in_file(file, format_args!("unknown format, {expected} (.{scans})")))
    }
    pub(super) fn is_csv(self) -> bool {
        matches!(self, Format::Csv(_))
    }
}

/// Returns whether an input or output is standard input or output, a pipe or a device: what is no
/// file in a folder.
pub(super) fn is_stream(file: &Path) -> bool {
    let is_special = |metadata: fs::Metadata| !metadata.is_file() && !metadata.is_dir();
    is_standard(file, 0)
        || is_standard(file, 1)
        || file.starts_with("/dev/fd")
        || fs::metadata(file).is_ok_and(is_special)
}
/// Returns whether a name means standard input (0) or output (1).
pub(super) fn is_standard(file: &Path, descriptor: u8) -> bool {
    let named = if descriptor == 0 { "/dev/stdin" } else { "/dev/stdout" };
    file == Path::new("-")
        || file == Path::new(named)
        || file == Path::new(&format!("/dev/fd/{descriptor}"))
        || file == Path::new(&format!("/proc/self/fd/{descriptor}"))
}
