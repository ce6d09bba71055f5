//! Any bytes as PCD: an error or a sound scan, never a panic, a hang or memory out of proportion.
//! `cargo +nightly fuzz run pcd fuzz/corpus/pcd fuzz/seeds/pcd -- -malloc_limit_mb=64`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(scan) = koel_spatial::read::parse_pcd(bytes) {
        let points = scan.points.positions.len();
        assert!(points > 0);
        assert!(scan.points.positions.iter().flatten().all(|c| c.is_finite()));
        assert!(scan.triangles.iter().flatten().all(|&i| (i as usize) < points));
        assert!(scan.points.normals.is_none_or(|normals| normals.len() == points));
    }
});
