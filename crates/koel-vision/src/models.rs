//! Files of many models.
//!
//! Little endian: `KOELMODL`, version (u32), number of models (u32). Then for each model its name
//! (length as u32, UTF-8), width and height (u32), the map from points to pixels (6 floats), points
//! and contour (number as u32; for each point x, y, normal x, normal y, strength, contrast as
//! floats); from version 2 on, the model's luminance (width and height as u32, both 0 if unknown;
//! then a byte per pixel); from version 3 on, its colours (width and height as u32, both 0 if
//! unknown; then red, green, blue and opacity of each pixel). The file ends with the 64-bit FNV-1a
//! hash of everything before it. Models are independent: adding or removing one leaves the others
//! unchanged.
use crate::affine::Affine;
use crate::agreement::Patch;
use crate::colour::{Colours, SIDE_OF_MODEL};
use crate::edges::Edge;
use crate::model::{MAX_POINTS, MIN_POINTS, Model, independent_weights};
use koel_vision_kernels::direction::direction;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"KOELMODL";
const VERSION: u32 = 3;
/// Maximum side of a stored luminance, in pixels.
const PATCH_SIDE: u32 = 1024;
/// Bytes per point.
const POINT: usize = 6 * 4;

/// Models by name, in insertion order, and their file.
///
/// A file is written whole with [`to_bytes`](Self::to_bytes) and read with [`load`](Self::load). It
/// ends with a checksum; models are independent of one another in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Models {
    models: Vec<(String, Model)>,
}

/// Fault of a file of models, or of a change to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file lacks the signature.
    #[error("{}: not a file of models", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was written by a later version of koel.
    #[error("{}: format version {found}, this koel reads {VERSION}", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
    },
    /// The file is truncated or modified.
    #[error("{}: damaged at byte {offset}: expected {what}", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the fault.
        offset: usize,
        /// Expected content.
        what: &'static str,
    },
    /// A model with this name exists already.
    #[error("a model named {name:?} already exists")]
    Duplicate {
        /// Name of the model.
        name: String,
    },
    /// No model has this name.
    #[error("no model is named {name:?}; known models: {}", known.join(", "))]
    Unknown {
        /// Requested name.
        name: String,
        /// Existing names.
        known: Vec<String>,
    },
}

impl Models {
    /// Iterates over names and models.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Model)> {
        self.models.iter().map(|(name, model)| (name.as_str(), model))
    }
    /// Adds a model. Fails if its name is taken.
    pub fn add(&mut self, name: String, model: Model) -> Result<(), ModelsError> {
        if self.models.iter().any(|(n, _)| *n == name) {
            return Err(ModelsError::Duplicate { name });
        }
        self.models.push((name, model));
        Ok(())
    }
    /// Removes a model. Fails if no model has this name.
    pub fn remove(&mut self, name: &str) -> Result<Model, ModelsError> {
        match self.models.iter().position(|(n, _)| n == name) {
            Some(at) => Ok(self.models.remove(at).1),
            None => Err(ModelsError::Unknown {
                name: name.into(),
                known: self.models.iter().map(|(n, _)| n.clone()).collect(),
            }),
        }
    }
    /// Encodes the models as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let put = |out: &mut Vec<u8>, v: u32| out.extend(v.to_le_bytes());
        put(&mut out, VERSION);
        put(&mut out, self.models.len() as u32);
        for (name, model) in &self.models {
            put(&mut out, name.len() as u32);
            out.extend(name.as_bytes());
            put(&mut out, model.width as u32);
            put(&mut out, model.height as u32);
            let Affine { linear: [[a, b], [c, d]], shift: [x, y] } = model.to_image;
            [a, b, c, d, x, y].iter().for_each(|v| put(&mut out, v.to_bits()));
            for edges in [&model.points, &model.contour] {
                put(&mut out, edges.len() as u32);
                for e in edges {
                    let values = [e.x, e.y, e.normal.0, e.normal.1, e.strength, e.contrast];
                    values.iter().for_each(|v| put(&mut out, v.to_bits()));
                }
            }
            let none = Patch { width: 0, height: 0, pixels: vec![] };
            let patch = model.patch.as_ref().unwrap_or(&none);
            put(&mut out, patch.width as u32);
            put(&mut out, patch.height as u32);
            out.extend(&patch.pixels);
            let (width, height, pixels) = match &model.colours {
                Some(colours) => (colours.width, colours.height, colours.pixels.as_slice()),
                None => (0, 0, &[][..]),
            };
            put(&mut out, width as u32);
            put(&mut out, height as u32);
            out.extend(pixels.as_flattened());
        }
        let hash = hash(&out);
        out.extend(hash.to_le_bytes());
        out
    }
    /// Loads a file. Errors: see [`ModelsError`]. A damaged file cannot cause large allocations.
    pub fn load(path: &Path) -> Result<Models, ModelsError> {
        let bytes = std::fs::read(path)
            .map_err(|source| ModelsError::Open { path: path.into(), source })?;
        Models::from_bytes(&bytes, path)
    }
    /// Decodes the bytes of a file; errors name `path`.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Models, ModelsError> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(ModelsError::Foreign { path: path.into() });
        }
        let damaged =
            |offset: usize, what| ModelsError::Damaged { path: path.into(), offset, what };
        let mut reader = Reader { bytes, at: 8, path, version: 0 };
        let found = reader.number()?;
        reader.version = found;
        if !(1..=VERSION).contains(&found) {
            return Err(ModelsError::Version { path: path.into(), found });
        }
        let Some((content, end)) =
            bytes.split_last_chunk::<8>().filter(|(content, _)| content.len() >= 16)
        else {
            return Err(damaged(bytes.len(), "the number of models and a checksum"));
        };
        if hash(content) != u64::from_le_bytes(*end) {
            return Err(damaged(content.len(), "the checksum of the content"));
        }
        reader.bytes = content;
        let (mut models, mut names) = (Models::default(), HashSet::new());
        for _ in 0..reader.number()? {
            let (name, model) = reader.model()?;
            if !names.insert(name.clone()) {
                return Err(damaged(reader.at, "a different name for each model"));
            }
            models.models.push((name, model));
        }
        if reader.at != content.len() { Err(damaged(reader.at, "the end")) } else { Ok(models) }
    }
}

/// Computes the 64-bit FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01B3))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
    version: u32,
}
impl<'a> Reader<'a> {
    fn damaged(&self, what: &'static str) -> ModelsError {
        ModelsError::Damaged { path: self.path.into(), offset: self.at, what }
    }
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], ModelsError> {
        let part = self.bytes[self.at..].get(..n).ok_or_else(|| self.damaged(what))?;
        self.at += n;
        Ok(part)
    }
    fn number(&mut self) -> Result<u32, ModelsError> {
        let bytes = self.take(4, "a number")?;
        Ok(bytes.iter().rev().fold(0, |n, &b| n << 8 | b as u32))
    }
    fn float(&mut self) -> Result<f32, ModelsError> {
        match f32::from_bits(self.number()?) {
            v if v.abs() <= 1e6 => Ok(v),
            _ => Err(self.damaged("a coordinate before it")),
        }
    }
    fn patch(&mut self) -> Result<Option<Patch>, ModelsError> {
        let (width, height) = (self.number()?, self.number()?);
        match (width, height) {
            (0, 0) => Ok(None),
            (1..=PATCH_SIDE, 1..=PATCH_SIDE) => {
                let (width, height) = (width as usize, height as usize);
                let pixels = self.take(width * height, "a luminance")?.to_vec();
                Ok(Some(Patch { width, height, pixels }))
            }
            _ => Err(self.damaged("the size of a luminance before it")),
        }
    }
    fn colours(&mut self, of: (usize, usize)) -> Result<Option<Colours>, ModelsError> {
        let (width, height) = (self.number()?, self.number()?);
        match (width, height) {
            (0, 0) => Ok(None),
            (1..=SIDE_OF_MODEL, 1..=SIDE_OF_MODEL) => {
                let size = (width as usize, height as usize);
                let (pixels, _) = self.take(4 * size.0 * size.1, "colours")?.as_chunks::<4>();
                Ok(Some(Colours::from_parts(of, size, pixels.to_vec())))
            }
            _ => Err(self.damaged("the size of colours before it")),
        }
    }
    fn side(&mut self) -> Result<usize, ModelsError> {
        match self.number()? {
            n @ 1..=crate::picture::LONGEST_SIDE => Ok(n as usize),
            _ => Err(self.damaged("the size of an image before it")),
        }
    }
    /// Reads up to `most` edges: the time per model grows with the square of their number.
    fn edges(&mut self, most: usize) -> Result<Vec<Edge>, ModelsError> {
        let count = self.number()?;
        if count as usize > most || self.bytes.len() - self.at < count as usize * POINT {
            return Err(self.damaged("a valid number of points before it"));
        }
        (0..count)
            .map(|_| {
                let (x, y, nx, ny) = (self.float()?, self.float()?, self.float()?, self.float()?);
                if x < 0.0 || y < 0.0 || (nx * nx + ny * ny - 1.0).abs() > 0.01 {
                    return Err(
                        self.damaged("a point inside the image and a unit vector before it")
                    );
                }
                let (strength, contrast) = (self.float()?, self.float()?);
                Ok(Edge {
                    x,
                    y,
                    normal: (nx, ny),
                    direction: direction(nx, ny),
                    strength,
                    contrast,
                })
            })
            .collect()
    }
    fn model(&mut self) -> Result<(String, Model), ModelsError> {
        let length = self.number()? as usize;
        let name = std::str::from_utf8(self.take(length, "a name")?)
            .map_err(|_| self.damaged("a name in UTF-8"))?;
        let (width, height) = (self.side()?, self.side()?);
        let [a, b, c, d, x, y] = [
            self.float()?,
            self.float()?,
            self.float()?,
            self.float()?,
            self.float()?,
            self.float()?,
        ];
        let to_image = Affine { linear: [[a, b], [c, d]], shift: [x, y] };
        if to_image.inverse().is_none() {
            return Err(self.damaged("an invertible map before it"));
        }
        let (points, contour) = (self.edges(MAX_POINTS.0)?, self.edges(MAX_POINTS.1)?);
        if points.len() < MIN_POINTS || contour.is_empty() {
            return Err(self.damaged("enough points for a model before it"));
        }
        let weights = independent_weights(&points);
        let patch = if self.version > 1 { self.patch()? } else { None };
        let colours = if self.version > 2 { self.colours((width, height))? } else { None };
        let model = Model { width, height, to_image, points, weights, contour, patch, colours };
        Ok((name.into(), model))
    }
}
