//! Checks of the reader of glTF.
use koel_scans::DeformingMesh;

/// Expects an error or a valid mesh, with as many positions at each time of each animation.
pub fn check(bytes: &[u8]) {
    let Ok(mesh) = DeformingMesh::parse(bytes) else { return };
    let positions = mesh.positions();
    assert!(positions.iter().flatten().all(|c| c.is_finite()));
    assert!(!mesh.triangles().is_empty());
    assert!(mesh.triangles().iter().flatten().all(|&i| (i as usize) < positions.len()));
    let ends = mesh.animations().map(|animation| animation.seconds).collect::<Vec<f64>>();
    for (animation, end) in ends.into_iter().enumerate() {
        assert!(end.is_finite() && end >= 0.0);
        for seconds in [0.0, 0.37 * end, end] {
            assert_eq!(mesh.positions_at(animation, seconds).len(), positions.len());
            mesh.turns_inside_out(animation, seconds);
        }
    }
}
