//! What the measurements of normals share.

use std::io::Write;
use std::path::Path;

/// Returns the CPU time of this process in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let field = |i: usize| after.split_whitespace().nth(i).and_then(|f| f.parse::<f64>().ok());
    // Fields utime and stime, in hundredths of a second.
    field(11).zip(field(12)).map_or(f64::NAN, |(user, system)| (user + system) / 100.0)
}

/// Writes points with normals as binary PLY.
pub(crate) fn write_ply(
    path: &Path,
    positions: &[[f32; 3]],
    normals: &[[f32; 3]],
) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    write!(out, "ply\nformat binary_little_endian 1.0\nelement vertex {}\n", positions.len())?;
    for name in ["x", "y", "z", "nx", "ny", "nz"] {
        writeln!(out, "property float {name}")?;
    }
    writeln!(out, "end_header")?;
    for c in positions.iter().zip(normals).flat_map(|(p, n)| p.iter().chain(n)) {
        out.write_all(&c.to_le_bytes())?;
    }
    out.flush()
}
