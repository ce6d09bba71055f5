//! Finds the distinct keys of a file that is larger than memory: 64-bit keys, little-endian,
//! without separators.
//!
//!     cargo run --release --example deduplicate -- IN OUT [KEYS PER PIECE, 2^26 by default]
//!     cargo run --release --example deduplicate -- 2^24   # makes a file; compares with a sort
//!
//! Reads the file in pieces. The distinct keys of each piece go to one of several partition files,
//! chosen by a hash, so that all copies of a key are in the same one; then each of those is
//! deduplicated. This also needs disk space for the distinct keys of all pieces, and memory for one
//! piece. The order of keys is not kept.
use koel::Device;
use koel::set::unique;
use koel_kernels::hash::mix::{mix64, splitmix_at};
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let device = Device::best()?;
    match &args[..] {
        [input, output] => report(&device, input.as_ref(), output.as_ref(), 1 << 26),
        [input, output, piece] => report(&device, input.as_ref(), output.as_ref(), number(piece)?),
        [n] => demonstrate(&device, number(n)?),
        [] => demonstrate(&device, 1 << 22),
        _ => Err("usage: deduplicate IN OUT [KEYS PER PIECE], or deduplicate KEYS".into()),
    }
}
/// Parses `2^k` or a number.
fn number(text: &str) -> Result<usize, Box<dyn Error>> {
    Ok(match text.split_once('^') {
        Some(("2", power)) => 1usize.checked_shl(power.parse()?).ok_or("too large")?,
        _ => text.parse()?,
    })
}

/// Numbers of keys read and kept.
struct Counts {
    keys: u64,
    distinct: u64,
}
fn report(
    device: &Device,
    input: &Path,
    output: &Path,
    piece: usize,
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let Counts { keys, distinct } = deduplicate(device, input, output, piece)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{keys} keys, {distinct} distinct, in {seconds:.1} s on {}", device.name());
    Ok(())
}
fn deduplicate(
    device: &Device,
    input: &Path,
    output: &Path,
    piece: usize,
) -> Result<Counts, Box<dyn Error>> {
    let bytes = std::fs::metadata(input)?.len();
    if !bytes.is_multiple_of(8) {
        return Err(format!("{}: {bytes} bytes, expected a multiple of 8", input.display()).into());
    }
    let piece = piece.max(1);
    let (keys, parts) =
        (bytes / 8, (bytes / 8).div_ceil(piece as u64 / 2 + 1).clamp(1, 512) as usize);
    let folder =
        output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::tempdir_in(folder)?;
    let file_of = |part: usize| scratch.path().join(part.to_string());
    let mut writers = (0..parts).map(|part| Ok(BufWriter::new(File::create(file_of(part))?)));
    let mut writers = writers.by_ref().collect::<Result<Vec<_>, std::io::Error>>()?;
    let mut reader = BufReader::new(File::open(input)?);
    loop {
        let some = read(&mut reader, piece)?;
        if some.is_empty() {
            break;
        }
        for key in unique(device, &some)? {
            // The high bits: a table uses others.
            let part = ((mix64(key) as u128 * parts as u128) >> 64) as usize;
            writers[part].write_all(&key.to_le_bytes())?;
        }
    }
    for writer in &mut writers {
        writer.flush()?;
    }
    // Written to a temporary file and renamed: there is never a partial result.
    let mut out = tempfile::NamedTempFile::new_in(folder)?;
    let mut distinct = 0;
    {
        let mut writer = BufWriter::new(out.as_file_mut());
        for part in 0..parts {
            let mut of_part = File::open(file_of(part))?;
            let some = read(&mut of_part, usize::MAX)?;
            for key in unique(device, &some)? {
                writer.write_all(&key.to_le_bytes())?;
                distinct += 1;
            }
        }
        writer.flush()?;
    }
    out.persist(output)?;
    Ok(Counts { keys, distinct })
}
/// Reads up to `most` keys.
fn read(from: &mut impl Read, most: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut bytes = vec![];
    from.take((most as u64).saturating_mul(8)).read_to_end(&mut bytes)?;
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("the file ends in the middle of a key".into());
    }
    Ok(words.iter().map(|&word| u64::from_le_bytes(word)).collect())
}

/// Makes a file of `n` keys, most of them several times, and reads it in pieces of an eighth.
fn demonstrate(device: &Device, n: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (input, output) = (folder.path().join("keys.u64"), folder.path().join("distinct.u64"));
    let key = |i: usize| splitmix_at(7, (splitmix_at(1, i as u32) % (n as u64 / 3 + 1)) as u32);
    let mut writer = BufWriter::new(File::create(&input)?);
    for i in 0..n {
        writer.write_all(&key(i).to_le_bytes())?;
    }
    writer.flush()?;
    report(device, &input, &output, n / 8)?;
    let mut found = read(&mut File::open(&output)?, usize::MAX)?;
    found.sort_unstable();
    let mut expected = (0..n).map(key).collect::<Vec<_>>();
    expected.sort_unstable();
    expected.dedup();
    if found != expected {
        return Err(format!(
            "{} keys are distinct, but {} were found",
            expected.len(),
            found.len()
        )
        .into());
    }
    println!("the same as by sorting");
    Ok(())
}
