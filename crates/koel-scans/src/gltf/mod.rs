//! glTF 2.0: triangle meshes of a scene, still or moved by skins, morph targets and animations.
//!
//! The crate `gltf` is an oracle in the tests and not the reader: it panics on some damaged files
//! (a binary file with a length below 12, a primitive whose positions are no accessor), keeps only
//! 32 bits of an index, and names no file, element or figure.

mod accessor;
mod animation;
mod container;
mod document;
mod fault;
mod scene;
mod surface;
mod transform;

use crate::error::{ParseError, ParseErrorKind, Place, ReadError, listed};
use crate::mesh::{Mesh, PointCloud};
use crate::positions::{Positions, Relative};
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;
use container::{Buffers, Fetch, Parts};
use document::Document;
use fault::{Fault, fault};
use scene::{Account, Model};
use std::path::{Component, Path, PathBuf};
use surface::Skipped;

pub(crate) use container::starts_as_glb;

/// Extensions that do not change where triangles are, by the start of their names.
const HARMLESS: &[&str] = &[
    "KHR_materials_",
    "KHR_texture_",
    "EXT_texture_",
    "MSFT_texture_",
    "KHR_lights_",
    "EXT_lights_",
    "KHR_xmp",
    "KHR_mesh_quantization",
];

/// Triangle mesh whose vertices move: a glTF file with skins, morph targets and animations. Its
/// triangles and the number and order of its vertices stay the same.
///
/// Positions follow the glTF 2.0 specification: transforms of nodes, linear blend skinning, morph
/// targets, and keys interpolated as `STEP`, `LINEAR` or `CUBICSPLINE`. They are computed in 64
/// bits.
pub struct DeformingMesh {
    model: Model,
    triangles: Vec<[u32; 3]>,
    report: ReadReport,
}

/// An animation of a [`DeformingMesh`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct MeshAnimation<'a> {
    /// Name in the file.
    pub name: Option<&'a str>,
    /// Time of its last key, in seconds. It begins at 0.
    pub seconds: f64,
}

impl DeformingMesh {
    /// Reads a glTF file (`.gltf`, `.glb`) and the files that hold its buffers, in its folder or
    /// below.
    ///
    /// # Errors
    /// [`ReadError`] for every fault of the file.
    pub fn read(path: impl AsRef<Path>) -> Result<DeformingMesh, ReadError> {
        let path = path.as_ref();
        let at_path = |error| ReadError { file: path.to_owned(), error: Box::new(error) };
        let bytes = std::fs::read(path)
            .map_err(|e| at_path(ParseErrorKind::Io(e.kind(), e.to_string()).in_file()))?;
        Self::parse_beside(&bytes, path).map_err(at_path)
    }
    /// Reads a glTF file from memory. Its buffers must be in it.
    ///
    /// # Errors
    /// [`ParseError`] for every fault of the content.
    pub fn parse(bytes: &[u8]) -> Result<DeformingMesh, ParseError> {
        let mut fetch =
            |uri: &str| Err(format!("{uri:?} is another file, expected data in this one"));
        parse(bytes, &mut fetch)
    }
    /// Reads a file whose buffers may be files in its folder or below.
    pub(crate) fn parse_beside(bytes: &[u8], path: &Path) -> Result<DeformingMesh, ParseError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut fetch = |uri: &str| {
            let name = percent_encoding::percent_decode_str(uri).decode_utf8();
            let name = PathBuf::from(name.map_err(|e| format!("{uri:?}: {e}"))?.as_ref());
            let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if uri.contains(':') || !name.components().all(is_below) {
                return Err(format!("{uri:?} is not a file in the folder of the document"));
            }
            let file = folder.join(name);
            match std::fs::read(&file) {
                Ok(bytes) => Ok((file, bytes)),
                Err(e) => Err(format!("{} cannot be read: {e}", file.display())),
            }
        };
        parse(bytes, &mut fetch)
    }

    /// Returns the format, the origin of positions, and what was omitted.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }
    /// Makes positions relative to another origin, for instance that of another scan.
    pub fn set_origin(&mut self, origin: [f64; 3]) {
        self.report.origin = origin;
    }
    /// Returns the animations, in the order of the file.
    pub fn animations(&self) -> impl ExactSizeIterator<Item = MeshAnimation<'_>> {
        let clips = self.model.clips.iter();
        clips.map(|clip| MeshAnimation { name: clip.name.as_deref(), seconds: clip.end })
    }
    /// Returns the corners of each triangle, as indices of positions.
    pub fn triangles(&self) -> &[[u32; 3]] {
        &self.triangles
    }
    /// Returns the positions without an animation. Cost: linear in the vertices, times their morph
    /// targets of a weight other than zero and their joints; spread over rayon's threads.
    pub fn positions(&self) -> Vec<[f32; 3]> {
        self.model.positions(None, |p| self.narrow(p))
    }
    /// Returns the positions at a time of an animation, in seconds. Before its first key and after
    /// its last, those of these keys. A position may be infinite where it is beyond 32-bit floating
    /// point. Cost: as for [`positions`](Self::positions).
    ///
    /// # Panics
    /// The animation does not exist.
    pub fn positions_at(&self, animation: usize, seconds: f64) -> Vec<[f32; 3]> {
        self.model.positions(Some((animation, seconds)), |p| self.narrow(p))
    }
    /// Returns whether a node mirrors its mesh at a time of an animation but not without one, or
    /// the other way round: its triangles are then clockwise seen from outside.
    ///
    /// # Panics
    /// The animation does not exist.
    pub fn turns_inside_out(&self, animation: usize, seconds: f64) -> bool {
        self.model.turns_inside_out(animation, seconds)
    }
    /// Returns the mesh without an animation.
    pub fn mesh(&self) -> Mesh {
        Mesh { positions: self.positions(), triangles: self.triangles.clone() }
    }
    /// Returns the mesh without an animation as a scan, whose report notes the animations.
    pub fn scan(&self) -> Scan {
        let mut scan = self.scan_of(self.positions());
        let count = self.model.clips.len();
        if count > 0 {
            let text = format!("{count} animations were not read: the mesh is as without them");
            scan.report.notes.push(ReadNote { place: Place::File, text });
        }
        scan
    }
    /// Returns the mesh at a time of an animation, in seconds, as a scan. Positions and cost: those
    /// of [`positions_at`](Self::positions_at).
    ///
    /// # Panics
    /// The animation does not exist.
    pub fn scan_at(&self, animation: usize, seconds: f64) -> Scan {
        self.scan_of(self.positions_at(animation, seconds))
    }
    fn scan_of(&self, positions: Vec<[f32; 3]>) -> Scan {
        Scan {
            points: PointCloud { positions, normals: None },
            triangles: self.triangles.clone(),
            report: self.report.clone(),
        }
    }
    fn narrow(&self, position: [f64; 3]) -> [f32; 3] {
        std::array::from_fn(|a| (position[a] - self.report.origin[a]) as f32)
    }
}

/// Reads a glTF file from memory, without its animations: the mesh as its nodes, skins and default
/// weights show it. Triangles of all meshes of the default scene become one mesh. Buffers must be
/// in the file. Lines, points and attributes other than positions are [noted](ReadReport::notes).
///
/// Memory stays within a multiple of the file's size and of the vertices that the scene shows, at
/// most 2^26, because nodes can show the same mesh many times.
///
/// # Errors
/// [`ParseError`] with the element at fault.
pub fn parse_gltf(bytes: &[u8]) -> Result<Scan, ParseError> {
    DeformingMesh::parse(bytes).map(|mesh| mesh.scan())
}

fn parse(bytes: &[u8], fetch: &mut Fetch<'_>) -> Result<DeformingMesh, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let parts = Parts::of(bytes)?;
    let document = parts.document()?;
    let in_file = |fault: Fault| fault.into_error(Place::File);
    check_version(&document).map_err(in_file)?;
    check_extensions(&document).map_err(in_file)?;
    let buffers = Buffers::new(&parts, document.buffers.len(), fetch);
    let mut reader = accessor::Reader { document: &document, buffers, zeros: 0 };
    let mut account = Account::default();
    let model = Model::read(&mut reader, &mut account).map_err(in_file)?;
    let triangles = model.triangles();
    if triangles.is_empty() {
        let (meshes, nodes) = (document.meshes.len(), document.nodes.len());
        let Skipped { points_or_lines, without_positions, .. } = &account.skipped;
        let reason = format!(
            "no triangles; {meshes} meshes, {nodes} nodes, {points_or_lines} primitives of points \
             or lines, {without_positions} primitives without POSITION (it may be in a compressed \
             extension)"
        );
        return Err(in_file(fault("the scene".into(), reason)));
    }
    let mut wide = Positions::with_capacity(true, model.vertices());
    for (vertex, position) in model.positions(None, |p| p).into_iter().enumerate() {
        if let Some(axis) = position.iter().position(|&c| !(c as f32).is_finite()) {
            let (vertex, field, value) = (vertex as u64, ["x", "y", "z"][axis], position[axis]);
            return Err(ParseErrorKind::NotFinite { vertex, field, value }.in_file());
        }
        wide.push(position);
    }
    let Relative { origin, .. } = wide.finish();
    let report = ReadReport {
        format: Format::Gltf,
        unit: Some("metre".into()),
        origin,
        notes: notes(&document, &account, parts.other_chunks),
        files: reader.buffers.files,
        ..ReadReport::default()
    };
    Ok(DeformingMesh { model, triangles, report })
}

fn check_version(document: &Document) -> Result<(), Fault> {
    let asset = &document.asset;
    let least = asset.min_version.as_deref().unwrap_or("2.0");
    match asset.version.starts_with("2.") && least == "2.0" {
        true => Ok(()),
        false => {
            let version = asset.min_version.as_ref().unwrap_or(&asset.version);
            Err(fault("asset".into(), format!("version {version:?}, expected \"2.0\"")))
        }
    }
}
fn is_harmless(extension: &str) -> bool {
    HARMLESS.iter().any(|start| extension.starts_with(start))
}
fn check_extensions(document: &Document) -> Result<(), Fault> {
    let mut required = document.extensions_required.iter().enumerate();
    match required.find(|(_, name)| !is_harmless(name)) {
        None => Ok(()),
        Some((i, name)) => Err(fault(
            format!("extensionsRequired[{i}]"),
            format!("{name} is not supported, expected a file without it"),
        )),
    }
}

/// Returns notes on what is not kept.
fn notes(document: &Document, account: &Account, other_chunks: u64) -> Vec<ReadNote> {
    let mut all = vec![];
    let mut note = |count: u64, text: String| {
        if count > 0 {
            all.push(ReadNote { place: Place::File, text });
        }
    };
    if !account.is_default {
        let text = match document.scenes.len() {
            0 => format!("no scenes: all {} nodes were read", document.nodes.len()),
            n => format!("no default scene: the first of {n} was read"),
        };
        note(1, text);
    }
    let skipped = &account.skipped;
    let lost = skipped.points_or_lines;
    note(lost, format!("{lost} primitives of points or lines were not read"));
    let n = skipped.without_positions;
    note(
        n,
        format!(
            "{n} primitives have no POSITION: their vertices are missing, or in a compressed \
             extension, and they were not read"
        ),
    );
    let (unused, vertices) = (skipped.unused, skipped.vertices);
    note(
        unused,
        format!("{unused} of {vertices} vertices belong to no triangle and were not kept"),
    );
    let names = skipped.attributes.iter().map(String::as_str).collect::<Vec<&str>>();
    note(
        names.len() as u64,
        format!("attributes {} were not kept: normals are those of the triangles", listed(&names)),
    );
    let n = skipped.unweighted;
    note(
        n,
        format!("{n} vertices of a skin have no weights: the first of their joints moves them"),
    );
    let n = account.ignored.0;
    note(n, format!("{n} channels of animations change no transform and no weight: not read"));
    let n = account.elsewhere;
    note(n, format!("{n} nodes with a mesh are not in the scene and were not read"));
    let unknown = document.extensions_used.iter().map(String::as_str);
    let unknown = unknown.filter(|name| !is_harmless(name)).collect::<Vec<&str>>();
    note(unknown.len() as u64, format!("extensions {} were ignored", listed(&unknown)));
    let others = [
        (document.materials.len(), "materials"),
        (document.images.len(), "images"),
        (document.cameras.len(), "cameras"),
    ];
    let others = others.iter().filter(|(n, _)| *n > 0);
    let others = others.map(|(n, what)| format!("{n} {what}")).collect::<Vec<String>>();
    note(others.len() as u64, format!("{} were not read", others.join(", ")));
    note(other_chunks, format!("{other_chunks} chunks of other kinds were not read"));
    all
}
