//! Crate of a source file: the root from which `mod` items lead to it.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Returns, for each file that `mod` items lead to, the roots they start from. Paths are relative
/// to the repository. `source` returns the text of a file, if it exists.
pub(super) fn roots_of_files(
    roots: &[PathBuf],
    source: impl Fn(&Path) -> Option<String>,
) -> Result<BTreeMap<PathBuf, BTreeSet<PathBuf>>, String> {
    let mut found = BTreeMap::<PathBuf, BTreeSet<PathBuf>>::new();
    for root in roots {
        let mut left = vec![(root.clone(), true)];
        while let Some((file, has_folder)) = left.pop() {
            let Some(text) = source(&file) else { continue };
            if !found.entry(file.clone()).or_default().insert(root.clone()) {
                continue;
            }
            let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
            let here = file.parent().unwrap_or(Path::new(""));
            let folder = if has_folder { here.to_path_buf() } else { file.with_extension("") };
            modules(&parsed.items, here, &folder, &mut left);
        }
    }
    Ok(found)
}

/// Appends the files that `mod` items name, and whether their own modules are in the same folder.
fn modules(items: &[syn::Item], here: &Path, folder: &Path, files: &mut Vec<(PathBuf, bool)>) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        match (&module.content, path_of(&module.attrs)) {
            (Some((_, items)), _) => {
                let folder = folder.join(&name);
                modules(items, &folder, &folder, files);
            }
            (None, Some(path)) => files.push((normal(&here.join(path)), true)),
            (None, None) => {
                files.push((folder.join(format!("{name}.rs")), false));
                files.push((folder.join(&name).join("mod.rs"), true));
            }
        }
    }
}
/// Returns the text of `#[path = ".."]`.
fn path_of(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}
/// Returns the path without `..`, except where it leaves the folder that it begins in.
pub(super) fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir if path.pop() => {}
            part => path.push(part),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c { mod d; } #[path = \"e.rs\"] mod f;"),
            ("a/src/b.rs", "mod g;"),
            ("a/src/b/g.rs", ""),
            ("a/src/c/d.rs", ""),
            ("a/src/e.rs", "mod h;"),
            ("a/src/h/mod.rs", "mod i;"),
            ("a/src/h/i.rs", ""),
            ("a/src/alone.rs", ""),
            ("x/src/main.rs", "#[path = \"../../a/src/e.rs\"] mod e;"),
        ];
        let source = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.to_string())
        };
        let roots = ["a/src/lib.rs", "x/src/main.rs"].map(PathBuf::from);
        let found = roots_of_files(&roots, source).unwrap();
        let of = |file: &str| {
            let roots = found.get(Path::new(file)).into_iter().flatten();
            roots.map(|root| root.to_str().unwrap()).collect::<Vec<_>>()
        };
        for file in ["lib.rs", "b.rs", "b/g.rs", "c/d.rs"] {
            assert_eq!(of(&format!("a/src/{file}")), ["a/src/lib.rs"], "{file}");
        }
        for file in ["e.rs", "h/mod.rs", "h/i.rs"] {
            assert_eq!(of(&format!("a/src/{file}")), ["a/src/lib.rs", "x/src/main.rs"], "{file}");
        }
        assert_eq!(of("a/src/alone.rs"), [""; 0]);
    }
}
