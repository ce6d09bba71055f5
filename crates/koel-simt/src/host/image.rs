//! Compressed GPU code of a kernel family, as embedded in a library.
//!
//! A file is one line of text followed by one brotli stream:
//!
//! ```text
//! koel-image 1 map from=92f1c0de01234567 code:86=479536 code:89=479536 code:80=479152
//! ```
//!
//! `code:86=N` stands for N bytes of machine code for compute capability 8.6 in the stream,
//! `ptx:75=N` for N bytes of PTX for 7.5 and later; the stream holds them in this order. `from` is
//! the [checksum](Image::checksum) of the PTX that the file was made from; all files of an image
//! have the same.
use std::fmt;

/// Form of GPU code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeKind {
    /// Machine code (a cubin) for one compute capability; later minor versions run it too.
    Machine,
    /// PTX, which the driver compiles for any later GPU.
    Ptx,
}

/// Piece of code in an image file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// Machine code or PTX.
    pub kind: CodeKind,
    /// Compute capability it targets: 90 is 9.0.
    pub capability: u32,
    /// Uncompressed size in bytes.
    pub bytes: usize,
}
impl Code {
    /// Returns whether a GPU of this compute capability can run the code.
    ///
    /// Machine code runs only on its own major version. Embedded GPUs (8.7) do not run machine code
    /// for others.
    pub fn runs_on(&self, capability: u32) -> bool {
        let same_major = self.capability / 10 == capability / 10 && capability != 87;
        self.capability <= capability && (self.kind == CodeKind::Ptx || same_major)
    }
}

/// GPU code of a kernel family, for several GPUs. `#[kernel(image = NAME)]` refers to one.
#[derive(Clone, Copy)]
pub struct Image {
    /// Name of the family.
    pub name: &'static str,
    /// Files that this build embeds. An empty one stands for a file that it leaves out.
    pub files: &'static [&'static [u8]],
}

/// Defines the images of a crate, and `ALL`, the list of them. Belongs in the crate's module
/// `images`, where `#[kernel(image = NAME)]` finds an image.
///
/// `cargo xtask ptx` writes the files of an image to `images/` beside the crate's manifest, named
/// like the family in quotes. The features of koel-simt choose which of them every crate of a
/// program embeds: `ptx` (for any GPU since compute capability 7.5, compiled by the driver),
/// `sm_8x` (machine code for 8.0, 8.6 and 8.9), `sm_90` and `sm_1xx` (10.0 and 12.0). A program
/// links the images of the kernels that it can launch, and a device loads an image when its first
/// kernel is launched.
///
/// ```ignore
/// koel_simt::images! {
///     /// Build, lookup and export of maps.
///     MAP "map";
/// }
/// ```
#[macro_export]
macro_rules! images { ($($(#[$doc:meta])* $name:ident $family:literal;)*) => {
    $(
        $(#[$doc])*
        pub static $name: $crate::Image = $crate::Image {
            name: $family,
            files: &$crate::host::chosen_files([
                $crate::images!(@file $family ".sm_8x"),
                $crate::images!(@file $family ".sm_90"),
                $crate::images!(@file $family ".sm_1xx"),
                $crate::images!(@file $family ".ptx"),
            ]),
        };
    )*
    /// All images. A program that uses this list links all of them.
    pub static ALL: &[&$crate::Image] = &[$(&$name),*];
}; (@file $family:literal $ending:literal) => {
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/images/", $family, $ending))
} }

/// Returns the files that features choose, for [`images!`]; empty ones instead of the others, which
/// the program then does not contain.
#[doc(hidden)]
pub const fn chosen_files([sm_8x, sm_90, sm_1xx, ptx]: [&'static [u8]; 4]) -> [&'static [u8]; 4] {
    const fn if_chosen(chosen: bool, file: &'static [u8]) -> &'static [u8] {
        if chosen { file } else { &[] }
    }
    [
        if_chosen(cfg!(feature = "sm_8x"), sm_8x),
        if_chosen(cfg!(feature = "sm_90"), sm_90),
        if_chosen(cfg!(feature = "sm_1xx"), sm_1xx),
        if_chosen(cfg!(feature = "ptx"), ptx),
    ]
}

/// Error of a file that is not a valid image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageError(String);
impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ImageError {}

/// Parsed first line of a file, and the stream after it.
struct File<'a> {
    from: u64,
    codes: Vec<Code>,
    #[cfg_attr(
        not(feature = "images"),
        expect(dead_code, reason = "only `images` decompresses it")
    )]
    stream: &'a [u8],
}

fn read<'a>(name: &str, file: &'a [u8]) -> Result<File<'a>, ImageError> {
    let wrong = |what: &str| ImageError(format!("image `{name}`: {what}"));
    let end = file.iter().position(|b| *b == b'\n').ok_or_else(|| wrong("no first line"))?;
    let line =
        std::str::from_utf8(&file[..end]).map_err(|_| wrong("the first line is not UTF-8"))?;
    let mut words = line.split(' ');
    if words.next() != Some("koel-image") || words.next() != Some("1") || words.next() != Some(name)
    {
        return Err(wrong(&format!("the first line is `{line}`")));
    }
    let from = words
        .next()
        .and_then(|w| w.strip_prefix("from="))
        .and_then(|w| u64::from_str_radix(w, 16).ok());
    let from = from.ok_or_else(|| wrong("no checksum"))?;
    let code = |word: &str| {
        let (what, bytes) = word.split_once('=')?;
        let (kind, capability) = what.split_once(':')?;
        let kind = match kind {
            "code" => CodeKind::Machine,
            "ptx" => CodeKind::Ptx,
            _ => return None,
        };
        Some(Code { kind, capability: capability.parse().ok()?, bytes: bytes.parse().ok()? })
    };
    let codes = words.map(|w| code(w).ok_or_else(|| wrong(&format!("`{w}` in the first line"))));
    Ok(File { from, codes: codes.collect::<Result<_, _>>()?, stream: &file[end + 1..] })
}

impl Image {
    /// Returns the files that this build embeds.
    fn embedded(&self) -> impl Iterator<Item = &'static [u8]> {
        self.files.iter().copied().filter(|file| !file.is_empty())
    }
    /// Returns the pieces of code in the files, without decompressing any.
    pub fn codes(&self) -> Result<Vec<Code>, ImageError> {
        let mut all = vec![];
        for file in self.embedded() {
            all.extend(read(self.name, file)?.codes);
        }
        Ok(all)
    }
    /// Returns the checksum of the PTX that each file was made from.
    pub fn origins(&self) -> Result<Vec<u64>, ImageError> {
        self.embedded().map(|file| Ok(read(self.name, file)?.from)).collect()
    }
    /// Returns the checksum that files record for the PTX they were made from: FNV-1a of the text,
    /// over all capabilities in order.
    pub fn checksum<'a>(ptx: impl IntoIterator<Item = &'a str>) -> u64 {
        let step = |sum: u64, byte: &u8| (sum ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        ptx.into_iter().flat_map(str::as_bytes).fold(0xcbf2_9ce4_8422_2325, step)
    }
    /// Returns the first line of a file.
    pub fn first_line(name: &str, from: u64, codes: &[Code]) -> String {
        let word = |c: &Code| {
            let kind = if c.kind == CodeKind::Ptx { "ptx" } else { "code" };
            format!(" {kind}:{}={}", c.capability, c.bytes)
        };
        format!(
            "koel-image 1 {name} from={from:016x}{}\n",
            codes.iter().map(word).collect::<String>()
        )
    }
    /// Returns the best code of this kind for a GPU of this compute capability, decompressed;
    /// `None` if the files contain none.
    #[cfg(feature = "images")]
    pub fn code(
        &self,
        kind: CodeKind,
        capability: u32,
    ) -> Result<Option<(Code, Vec<u8>)>, ImageError> {
        let suits = |c: &Code| c.kind == kind && c.runs_on(capability);
        let Some(best) = self.codes()?.into_iter().filter(suits).max_by_key(|c| c.capability)
        else {
            return Ok(None);
        };
        self.decode(best).map(|bytes| Some((best, bytes)))
    }
    /// Decompresses one of the [`codes`](Self::codes).
    #[cfg(feature = "images")]
    pub fn decode(&self, code: Code) -> Result<Vec<u8>, ImageError> {
        use std::io::Read;

        for file in self.embedded() {
            let File { codes, stream, .. } = read(self.name, file)?;
            let Some(place) = codes.iter().position(|c| *c == code) else { continue };
            let broken = |e: std::io::Error| ImageError(format!("image `{}`: {e}", self.name));
            let mut stream = brotli_decompressor::Decompressor::new(stream, 1 << 14);
            let before = codes[..place].iter().map(|c| c.bytes as u64).sum();
            std::io::copy(&mut stream.by_ref().take(before), &mut std::io::sink())
                .map_err(broken)?;
            let mut bytes = vec![0; code.bytes];
            stream.read_exact(&mut bytes).map_err(broken)?;
            return Ok(bytes);
        }
        Err(ImageError(format!("image `{}` holds no {code:?}", self.name)))
    }
}
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: [Code; 3] = [
        Code { kind: CodeKind::Machine, capability: 86, bytes: 5 },
        Code { kind: CodeKind::Machine, capability: 80, bytes: 7 },
        Code { kind: CodeKind::Ptx, capability: 75, bytes: 0 },
    ];

    #[test]
    fn first_lines_are_read_as_they_were_written() {
        let file: &'static [u8] = Image::first_line("map", 7, &CODES).leak().as_bytes();
        let image = Image { name: "map", files: Vec::leak(vec![file]) };
        assert_eq!(image.codes(), Ok(CODES.to_vec()));
        assert_eq!(image.origins(), Ok(vec![7]));
        assert!(Image { name: "set", ..image }.codes().is_err());
    }
    #[test]
    fn files_that_are_none_are_errors() {
        for line in
            ["koel-image 1 map from=7", "koel-image 2 map from=7\n", "koel-image 1 map from=x\n"]
        {
            let files: &'static [&'static [u8]] =
                Vec::leak(vec![String::from(line).leak().as_bytes()]);
            assert!(Image { name: "map", files }.codes().is_err(), "{line:?}");
        }
        for word in ["code:86", "code:86=x", "code:x=1", "text:86=1", "86"] {
            let line = format!("koel-image 1 map from=7 {word}\n");
            let files: &'static [&'static [u8]] = Vec::leak(vec![line.leak().as_bytes()]);
            assert!(Image { name: "map", files }.codes().is_err(), "{word:?}");
        }
    }
    #[test]
    fn files_that_a_build_leaves_out_hold_nothing() {
        let file: &'static [u8] = Image::first_line("map", 7, &CODES).leak().as_bytes();
        let image = Image { name: "map", files: Vec::leak(vec![&[], file, &[]]) };
        assert_eq!((image.codes(), image.origins()), (Ok(CODES.to_vec()), Ok(vec![7])));
        let files = chosen_files([file; 4]);
        let chosen = [
            cfg!(feature = "sm_8x"),
            cfg!(feature = "sm_90"),
            cfg!(feature = "sm_1xx"),
            cfg!(feature = "ptx"),
        ];
        assert_eq!(files.map(|file| !file.is_empty()), chosen);
    }
    #[test]
    fn which_gpu_takes_which_code() {
        let code = |capability| Code { kind: CodeKind::Machine, capability, bytes: 0 };
        let ptx = |capability| Code { kind: CodeKind::Ptx, capability, bytes: 0 };
        assert!(code(80).runs_on(80) && code(80).runs_on(89) && code(100).runs_on(103));
        assert!(
            !code(86).runs_on(80)
                && !code(80).runs_on(90)
                && !code(90).runs_on(100)
                && !code(86).runs_on(87)
        );
        assert!(
            ptx(75).runs_on(75)
                && ptx(75).runs_on(87)
                && ptx(90).runs_on(121)
                && !ptx(90).runs_on(89)
        );
    }
    #[test]
    fn checksums_differ_where_texts_do() {
        assert_ne!(Image::checksum(["a", "b"]), Image::checksum(["b", "a"]));
        assert_eq!(Image::checksum(["a", "b"]), Image::checksum(["ab"]));
    }
}
