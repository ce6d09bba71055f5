//! Image files: the compressed PTX and machine code of a kernel family, as embedded in a crate.
//!
//! Each family has four files: `NAME.ptx` with the PTX for both targets (they are so similar that
//! the second adds 1 %), and three with machine code, split so that features can exclude GPUs. Code
//! for similar chips is in one file.
use crate::nvcc::{Tools, in_parallel};
use koel_simt::{Code, CodeKind, Image};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// Files of machine code: extension, and the compute capabilities in them. The first in a file is
/// decompressed fastest.
const MACHINE_CODE: [(&str, &[u32]); 3] =
    [("sm_8x", &[86, 89, 80]), ("sm_90", &[90]), ("sm_1xx", &[100, 120])];

/// The lowest compute capability (any GPU since 2018), and the one that the kernels are tuned for.
pub(crate) const CPUS: [&str; 2] = ["sm_75", "sm_90"];

/// PTX of a family for each of [`CPUS`].
pub(crate) type Texts = [String; CPUS.len()];

fn capability(cpu: &str) -> u32 {
    cpu.trim_start_matches("sm_").parse().expect("a target of ours")
}

/// File to be written: name and contents.
struct File {
    name: String,
    family: String,
    from: u64,
    /// `None` if not assembled: then its size is unknown too.
    content: Vec<(Code, Option<Vec<u8>>)>,
}

/// Returns the files of all families. Assembles the machine code of a [share](Share), or all.
fn files(
    tools: &Tools,
    families: &BTreeMap<String, Texts>,
    share: Option<Share>,
) -> Result<Vec<File>, String> {
    let mut parts = vec![];
    for (family, texts) in families {
        for (ending, capabilities) in MACHINE_CODE {
            parts.extend(capabilities.iter().map(|c| (family, texts, ending, *c)));
        }
    }
    let numbered = parts.iter().enumerate().collect::<Vec<_>>();
    let cubins = in_parallel(&numbered, |(number, (_, texts, _, chip))| {
        if share.is_some_and(|share| !share.has(*number)) {
            return Ok(None);
        }
        let cpu =
            CPUS.iter().rposition(|cpu| capability(cpu) <= *chip).ok_or("a chip without PTX")?;
        let cubin = tools.assemble(&texts[cpu], &format!("sm_{chip}"))?.cubin;
        std::fs::read(&cubin).map(Some).map_err(|e| format!("{}: {e}", cubin.display()))
    })?;
    let mut files = BTreeMap::<String, File>::new();
    let mut add =
        |family: &String, texts: &Texts, ending: &str, kind, capability, bytes: Option<Vec<u8>>| {
            let name = format!("{family}.{ending}");
            let from = Image::checksum(texts.iter().map(String::as_str));
            let file =
                || File { name: name.clone(), family: family.clone(), from, content: vec![] };
            let code = Code { kind, capability, bytes: bytes.as_ref().map_or(0, Vec::len) };
            files.entry(name.clone()).or_insert_with(file).content.push((code, bytes));
        };
    for ((family, texts, ending, chip), cubin) in parts.into_iter().zip(cubins) {
        add(family, texts, ending, CodeKind::Machine, chip, cubin);
    }
    for (family, texts) in families {
        for (cpu, text) in CPUS.iter().zip(texts) {
            add(
                family,
                texts,
                "ptx",
                CodeKind::Ptx,
                capability(cpu),
                Some(text.clone().into_bytes()),
            );
        }
    }
    Ok(files.into_values().collect())
}

fn compress(file: &File) -> Result<Vec<u8>, String> {
    let codes = file.content.iter().map(|(code, _)| *code).collect::<Vec<_>>();
    let mut out = Image::first_line(&file.family, file.from, &codes).into_bytes();
    let params = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    let mut writer = brotli::CompressorWriter::with_params(&mut out, 1 << 16, &params);
    let content = file
        .content
        .iter()
        .try_for_each(|(_, bytes)| writer.write_all(bytes.as_deref().unwrap_or_default()));
    content.and_then(|()| writer.flush()).map_err(|e| format!("{}: {e}", file.name))?;
    drop(writer);
    Ok(out)
}

/// Writes the files in `folder` of families whose PTX has changed, and removes those of families
/// that no longer exist. Only changed families are assembled: with another assembler, remove the
/// files first.
pub(crate) fn write(
    folder: &Path,
    tools: &Tools,
    families: &BTreeMap<String, Texts>,
) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let changed = families.iter().filter(|(family, texts)| !is_made_from(folder, family, texts));
    let changed = changed.map(|(family, texts)| (family.clone(), texts.clone())).collect();
    let files = files(tools, &changed, None)?;
    let written = in_parallel(&files, |file| {
        let (path, bytes) = (folder.join(&file.name), compress(file)?);
        std::fs::write(&path, &bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(bytes.len())
    })?;
    for name in strangers(folder, families)? {
        std::fs::remove_file(folder.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        println!("{name}: removed");
    }
    println!(
        "{}: {} of {} families changed; {} files written, {} bytes",
        folder.display(),
        changed.len(),
        families.len(),
        written.len(),
        sum(written)
    );
    Ok(())
}
/// Returns whether all files of a family say that they were made from this PTX.
fn is_made_from(folder: &Path, family: &str, texts: &Texts) -> bool {
    let from = Image::checksum(texts.iter().map(String::as_str));
    names_of(family).all(|name| {
        let opened = std::fs::read(folder.join(name)).map(|bytes| open(family, bytes));
        matches!(opened, Ok(Ok((_, origins, _))) if origins == [from])
    })
}
/// Returns the names of the files of a family.
fn names_of(family: &str) -> impl Iterator<Item = String> {
    let endings = MACHINE_CODE.map(|(ending, _)| ending).into_iter().chain(["ptx"]);
    endings.map(move |ending| format!("{family}.{ending}"))
}
fn sum(of: Vec<usize>) -> usize {
    of.into_iter().sum()
}

/// One of several shares of the machine code, each of families and chips that lie far apart. The
/// PTX that a file was made from is always compared: a share shows that it was made with this
/// assembler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(u64);
impl Share {
    const COUNT: u64 = 8;
    /// Returns the share of a number: each is that of one in eight.
    pub(crate) fn of(number: u64) -> Share {
        Share(number % Share::COUNT)
    }
    fn has(self, part: usize) -> bool {
        part as u64 % Share::COUNT == self.0
    }
}

/// Fails if a file is missing, belongs to none of these families, or has wrong contents. With
/// `share`, only its machine code is assembled and compared; the PTX that a file was made from is
/// always compared.
pub(crate) fn check(
    folder: &Path,
    tools: &Tools,
    families: &BTreeMap<String, Texts>,
    share: Option<Share>,
) -> Result<(), String> {
    let files = files(tools, families, share)?;
    if let Some(Share(number)) = share {
        println!("machine code is compared: share {number} of {}", Share::COUNT);
    }
    if let Some(stranger) = strangers(folder, families)?.first() {
        return Err(format!("{}: no family with that name", folder.join(stranger).display()));
    }
    let bytes = in_parallel(&files, |file| compare(folder, file))?;
    println!("{}: {} files up to date, {} bytes", folder.display(), files.len(), sum(bytes));
    Ok(())
}

/// Returns the names of files in the folder that belong to none of these families.
fn strangers(folder: &Path, families: &BTreeMap<String, Texts>) -> Result<Vec<String>, String> {
    let known = families.keys().flat_map(|family| names_of(family)).collect::<BTreeSet<_>>();
    let names = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = names.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| !known.contains(name.as_str())).collect())
}

/// Compares the decompressed contents of a file: the compression itself does not matter. Returns
/// the file's size.
fn compare(folder: &Path, file: &File) -> Result<usize, String> {
    let path = folder.join(&file.name);
    let say = |what: &str| format!("{}: {what}: run `cargo xtask ptx`", path.display());
    let bytes = std::fs::read(&path).map_err(|e| say(&e.to_string()))?;
    let size = bytes.len();
    let (codes, origins, image) = open(&file.family, bytes).map_err(|e| say(&e))?;
    let known = |code: &Code, bytes: &Option<Vec<u8>>| Code {
        bytes: bytes.as_ref().map_or(0, |_| code.bytes),
        ..*code
    };
    let found = codes
        .iter()
        .zip(&file.content)
        .map(|(code, (_, bytes))| known(code, bytes))
        .collect::<Vec<_>>();
    let expected = file.content.iter().map(|(code, _)| *code).collect::<Vec<_>>();
    if origins != [file.from] || codes.len() != expected.len() || found != expected {
        return Err(say("it was made from PTX that differs from what the sources give"));
    }
    for (code, expected) in
        file.content.iter().filter_map(|(code, bytes)| Some((code, bytes.as_ref()?)))
    {
        let found = image.decode(*code).map_err(|e| say(&e.to_string()))?;
        if found != *expected {
            let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
            return Err(say(&format!(
                "{:?} for {}: bytes differ from {at} on",
                code.kind, code.capability
            )));
        }
    }
    Ok(size)
}

fn open(family: &str, bytes: Vec<u8>) -> Result<(Vec<Code>, Vec<u64>, Image), String> {
    // Leaked, because the task is short-lived.
    let image = Image { name: family.to_string().leak(), files: vec![&*bytes.leak()].leak() };
    let text = |e: koel_simt::ImageError| e.to_string();
    Ok((image.codes().map_err(text)?, image.origins().map_err(text)?, image))
}

/// Returns the PTX of all families in a folder of image files, for one target.
pub(crate) fn ptx(folder: &Path, cpu: &str) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths = entries.flatten().map(|e| e.path()).collect::<Vec<_>>();
    paths.retain(|p| p.extension().is_some_and(|e| e == "ptx"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let say = |e: String| format!("{}: {e}", path.display());
        let family = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let (codes, _, image) =
            open(family, std::fs::read(path).map_err(|e| say(e.to_string()))?).map_err(say)?;
        let code = codes
            .into_iter()
            .find(|c| c.capability == capability(cpu))
            .ok_or(say(format!("no PTX for {cpu}")))?;
        String::from_utf8(image.decode(code).map_err(|e| say(e.to_string()))?)
            .map_err(|e| say(e.to_string()))
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_what_was_put_in() {
        let code = |kind, capability, bytes| Code { kind, capability, bytes };
        let content = vec![
            (code(CodeKind::Machine, 86, 5), Some(b"abcde".to_vec())),
            (code(CodeKind::Machine, 80, 3000), Some(vec![7; 3000])),
            (code(CodeKind::Machine, 89, 0), Some(vec![])),
        ];
        let file = File { name: "map.sm_8x".into(), family: "map".into(), from: 9, content };
        let (codes, origins, image) = open("map", compress(&file).unwrap()).unwrap();
        assert_eq!((codes.len(), origins), (3, vec![9]));
        assert!(file.content.iter().all(|(code, bytes)| image.decode(*code).ok() == *bytes));
        assert!(open("set", compress(&file).unwrap()).is_err());
        let cut = compress(&file).unwrap();
        let (codes, _, image) = open("map", cut[..cut.len() - 4].to_vec()).unwrap();
        assert!(image.decode(codes[1]).is_err());
    }
}
