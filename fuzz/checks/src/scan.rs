//! Checks of the readers of scans.
use koel_scans::Scan;

/// Expects an error or a valid scan.
pub fn check<E>(scan: Result<Scan, E>) {
    if let Ok(scan) = scan {
        let points = scan.points.positions.len();
        assert!(points > 0);
        assert!(scan.points.positions.iter().flatten().all(|c| c.is_finite()));
        assert!(scan.triangles.iter().flatten().all(|&i| (i as usize) < points));
        assert!(scan.points.normals.is_none_or(|normals| normals.len() == points));
    }
}
