//! Frames of a sequence: a single file, the files of a folder, or those that match a pattern.
use crate::failure::{Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of one kind: what one is called, and their extensions.
pub(crate) struct Kind {
    name: &'static str,
    pub(crate) extensions: &'static [&'static str],
}
/// Images.
pub(crate) const IMAGES: Kind = Kind {
    name: "image",
    extensions: &[
        "png", "jpg", "jpeg", "bmp", "pgm", "ppm", "pnm", "pbm", "tif", "tiff", "webp", "gif",
    ],
};
/// Clouds and meshes.
pub(crate) const SCANS: Kind = Kind {
    name: "scan",
    extensions: &[
        "ply", "pcd", "obj", "stl", "off", "xyz", "xyzn", "xyzrgb", "asc", "las", "laz", "e57",
        "gltf", "glb",
    ],
};

/// The frames that an argument stands for.
pub(crate) enum Frames {
    /// One file.
    One(PathBuf),
    /// Files with their numbers, in order.
    Many(Vec<(u64, PathBuf)>),
}

impl Frames {
    /// Finds the files. A file is a single frame; a folder stands for its files of this kind,
    /// sorted by name; a name with `%d` or `%04d` stands for all files that match it, sorted by
    /// number.
    pub(crate) fn of(scene: &Path, kind: &Kind) -> Outcome<Frames> {
        if scene.is_dir() {
            let mut files = listed(scene)?;
            let is_of_kind = |p: &PathBuf| {
                let extension = p.extension().map(|e| e.to_string_lossy().to_lowercase());
                extension.is_some_and(|e| kind.extensions.contains(&e.as_str()))
            };
            files.retain(is_of_kind);
            files.sort();
            if files.is_empty() {
                return Err(Failure::Usage(format!(
                    "{}: no {} in this folder",
                    scene.display(),
                    kind.name
                )));
            }
            return Ok(Frames::Many((0..).zip(files).collect()));
        }
        let Some(pattern) = Pattern::of(scene) else { return Ok(Frames::One(scene.into())) };
        let folder = scene.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut frames = listed(folder)?
            .into_iter()
            .filter_map(|path| Some((pattern.number(&path.file_name()?.to_string_lossy())?, path)))
            .collect::<Vec<(u64, PathBuf)>>();
        frames.sort();
        if frames.is_empty() {
            return Err(Failure::Usage(format!(
                "{}: no file matches this pattern",
                scene.display()
            )));
        }
        Ok(Frames::Many(frames))
    }
}

fn listed(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    entries.map_err(|e| Failure::Usage(format!("{}: {e}", folder.display())))
}

/// A file name with a placeholder for a number.
pub(crate) struct Pattern {
    before: String,
    after: String,
    digits: usize,
}
impl Pattern {
    /// Parses the pattern in the last component of a path; `None` if there is none.
    pub(crate) fn of(path: &Path) -> Option<Pattern> {
        let name = path.file_name()?.to_str()?;
        let (before, rest) = name.split_once('%')?;
        let (digits, after) = rest.split_once('d')?;
        let digits =
            if digits.is_empty() { 1 } else { digits.parse().ok().filter(|&n| n <= 20)? };
        Some(Pattern { before: before.into(), after: after.into(), digits })
    }
    /// Returns the number in a name that matches.
    fn number(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        let fits =
            digits.len() == self.digits || digits.len() > self.digits && !digits.starts_with('0');
        if fits && digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
    }
    /// Fills in the number, in the folder of `path`.
    pub(crate) fn with_number(&self, path: &Path, number: u64) -> PathBuf {
        let Pattern { before, after, digits } = self;
        path.with_file_name(format!("{before}{number:0digits$}{after}"))
    }
}

/// Returns the path of an output for a frame: the number of the frame in place of its pattern.
pub(crate) fn numbered(path: &Path, number: Option<u64>) -> PathBuf {
    match (Pattern::of(path), number) {
        (Some(pattern), Some(number)) => pattern.with_number(path, number),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_and_find() {
        let path = Path::new("a/frame-%04d.png");
        let pattern = Pattern::of(path).unwrap();
        assert_eq!(pattern.with_number(path, 7), Path::new("a/frame-0007.png"));
        for (name, number) in [
            ("frame-0012.png", Some(12)),
            ("frame-12345.png", Some(12345)),
            ("frame-012.png", None),
            ("frame-01234.png", None),
            ("frame-00x2.png", None),
            ("other-0012.png", None),
            ("frame-0012.jpg", None),
        ] {
            assert_eq!(pattern.number(name), number, "{name}");
        }
        for none in ["plain.png", "100%.png", "%xd.png", "%99999d.png"] {
            assert!(Pattern::of(Path::new(none)).is_none(), "{none}");
        }
        assert_eq!(Pattern::of(Path::new("%d.png")).unwrap().number("10.png"), Some(10));
    }

    #[test]
    fn folders_are_their_images_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.png", "a.JPG", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let Ok(Frames::Many(frames)) = Frames::of(folder.path(), &IMAGES) else {
            panic!("a folder is many")
        };
        let names = frames
            .iter()
            .map(|(n, p)| (*n, p.file_name().unwrap().to_str().unwrap()))
            .collect::<Vec<_>>();
        assert_eq!(names, [(0, "a.JPG"), (1, "b.png")]);
        assert!(Frames::of(&folder.path().join("%03d.png"), &IMAGES).is_err());
        assert!(Frames::of(folder.path(), &SCANS).is_err());
    }
}
