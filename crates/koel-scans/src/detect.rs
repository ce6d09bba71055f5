//! Which format a file has.

use crate::report::Format;
use crate::{gltf, las, off, pcd, ply, stl};

/// Determines the format from the content, or else from the extension.
pub(crate) fn format_of(bytes: &[u8], extension: Option<&str>) -> Option<Format> {
    let named = extension.and_then(|e| {
        let of = [
            ("ply", Format::Ply),
            ("obj", Format::Obj),
            ("pcd", Format::Pcd),
            ("stl", Format::Stl),
        ];
        let more = [("las", Format::Las), ("laz", Format::Laz)];
        let gltf = [("gltf", Format::Gltf), ("glb", Format::Gltf)];
        let texts = ["xyz", "xyzn", "xyzrgb", "asc"].map(|name| (name, Format::Xyz));
        let others = [("off", Format::Off), ("e57", Format::E57)];
        let all = of.into_iter().chain(more).chain(gltf).chain(texts).chain(others);
        all.into_iter().find(|(name, _)| e.eq_ignore_ascii_case(name)).map(|(_, format)| format)
    });
    if ply::starts_as_ply(bytes) {
        Some(Format::Ply)
    } else if las::starts_as_las(bytes) {
        Some(Format::Las)
    } else if gltf::starts_as_glb(bytes) {
        Some(Format::Gltf)
    } else if bytes.starts_with(b"ASTM-E57") {
        Some(Format::E57)
    } else if stl::is_binary(bytes) {
        Some(Format::Stl)
    } else if named != Some(Format::Obj) && pcd::starts_as_pcd(bytes) {
        Some(Format::Pcd)
    } else if named != Some(Format::Obj) && stl::starts_as_text(bytes) {
        Some(Format::Stl)
    } else if named != Some(Format::Obj) && off::starts_as_off(bytes) {
        Some(Format::Off)
    } else {
        named
    }
}
