//! Counts the k-mers of a genome, each as a 64-bit key.
//!
//!     cargo xtask data ecoli
//!     cargo run --release --example kmers -- data/ecoli/NC_008253.fna [K, 31 by default]
//!
//! Without a file it uses a genome of random bases with repeats. Windows with letters other than A,
//! C, G and T are skipped.
use koel::{Device, IndexBuilder, IndexOptions};
use koel_kernels::hash::mix::splitmix_at;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let (file, k) =
        (std::env::args().nth(1), std::env::args().nth(2).map_or(Ok(31), |k| k.parse::<u32>())?);
    if !(1..=32).contains(&k) {
        return Err(format!("{k}-mers, expected 1 to 32").into());
    }
    let sequences = match &file {
        Some(file) => fasta(&std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?),
        None => vec![synthetic(300_000)],
    };
    let bases = sequences.iter().map(Vec::len).sum::<usize>();
    let kmers = sequences.iter().flat_map(|sequence| kmers(sequence, k)).collect::<Vec<_>>();
    let device = Device::best()?;
    let stream = device.stream()?;
    let column = device.upload(&kmers)?;
    let begin = Instant::now();
    let mut builder = IndexBuilder::new(&device, IndexOptions::default())?;
    let (keys, counts) = builder.group_counts(&stream, column.view())?;
    let (keys, counts) = (keys.download()?, counts.download()?);
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{bases} bases, {} {k}-mers, {} of them distinct, counted in {:.1} ms on {}",
        kmers.len(),
        keys.len(),
        1e3 * seconds,
        device.name()
    );
    let once = counts.iter().filter(|&&count| count == 1).count();
    println!("{once} occur once");
    let mut often = (0..keys.len()).collect::<Vec<_>>();
    often.sort_by_key(|&i| (std::cmp::Reverse(counts[i]), keys[i]));
    for &i in often.iter().take(3) {
        println!("{:>8} times {}", counts[i], text(keys[i], k));
    }

    // By sorting, and counting runs.
    let mut sorted = kmers;
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32));
    if !keys.iter().copied().zip(counts.iter().copied()).eq(runs) {
        return Err("the counts differ from those of a naive count".into());
    }
    println!("the same as a naive count");
    Ok(())
}
/// The sequences of a FASTA file.
fn fasta(text: &str) -> Vec<Vec<u8>> {
    let mut sequences = vec![];
    for line in text.lines() {
        if line.starts_with('>') || sequences.is_empty() {
            sequences.push(vec![]);
        }
        if let (Some(sequence), false) = (sequences.last_mut(), line.starts_with('>')) {
            sequence.extend(line.trim().bytes().map(|base| base.to_ascii_uppercase()));
        }
    }
    sequences
}
/// Random bases; every third stretch repeats an earlier one.
fn synthetic(n: u32) -> Vec<u8> {
    let base = |i: u32| b"ACGT"[(splitmix_at(4, i) % 4) as usize];
    (0..n).map(|i| base(if i / 1000 % 3 == 2 { i % 1000 } else { i })).collect()
}
/// Returns the k-mers of a sequence, two bits per base, the first base in the highest bits.
fn kmers(sequence: &[u8], k: u32) -> impl Iterator<Item = u64> {
    let mask = if k == 32 { u64::MAX } else { (1 << (2 * k)) - 1 };
    let (mut word, mut length) = (0u64, 0);
    sequence.iter().filter_map(move |base| {
        match b"ACGT".iter().position(|letter| letter == base) {
            Some(code) => (word, length) = ((word << 2 | code as u64) & mask, length + 1),
            None => length = 0,
        }
        (length >= k).then_some(word)
    })
}
/// Returns a k-mer as letters.
fn text(kmer: u64, k: u32) -> String {
    (0..k).rev().map(|i| b"ACGT"[(kmer >> (2 * i) & 3) as usize] as char).collect()
}
