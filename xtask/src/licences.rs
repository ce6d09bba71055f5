//! Licences of dependencies, against the list in `deny.toml`.
use crate::metadata::{Metadata, Package};
use std::path::Path;

const FILE: &str = "deny.toml";

/// Checks that `deny.toml` allows the licence of every package that the workspace depends on, for
/// any target.
///
/// # Errors
/// Names every package whose licence is not allowed or not known.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let rules = Rules::of(&text)?;
    let packages = Metadata::of_all(root)?.packages;
    let foreign = packages.iter().filter(|p| p.source.is_some() || p.is_published());
    let wrong = foreign.clone().filter_map(|package| rules.reject(package)).collect::<Vec<_>>();
    if !wrong.is_empty() {
        return Err(wrong.join("\n       "));
    }
    println!("{} packages, each under a licence that {FILE} allows", foreign.count());
    Ok(())
}

/// Part of `deny.toml` that concerns licences.
#[derive(Debug, PartialEq)]
struct Rules<'a> {
    allowed: Vec<&'a str>,
    /// `name@version` of crates whose manifests name no licence, and what their files state.
    clarified: Vec<(&'a str, &'a str)>,
}

impl<'a> Rules<'a> {
    fn of(text: &'a str) -> Result<Rules<'a>, String> {
        let list = text.split_once("\nallow = [").and_then(|(_, rest)| rest.split_once(']'));
        let (list, _) = list.ok_or_else(|| format!("{FILE}: no list `allow`"))?;
        let value = |entry: &'a str, key: &str| {
            let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|rest| rest.strip_suffix('"'))
                .ok_or_else(|| format!("{FILE}: a clarification without `{key}`"))
        };
        let entries = text.split("\n[[licenses.clarify]]\n").skip(1);
        let clarified =
            entries.map(|entry| Ok((value(entry, "crate")?, value(entry, "expression")?)));
        Ok(Rules {
            allowed: list.split('"').skip(1).step_by(2).collect(),
            clarified: clarified.collect::<Result<_, String>>()?,
        })
    }
    /// Returns what is wrong with a package.
    fn reject(&self, package: &Package) -> Option<String> {
        let name = format!("{}@{}", package.name, package.version);
        let clarified = self.clarified.iter().find(|(other, _)| *other == name);
        let Some(licence) = package.license.as_deref().or(clarified.map(|(_, licence)| *licence))
        else {
            return Some(format!("{name}: no licence; add a clarification to {FILE}"));
        };
        match self.allow(licence) {
            Some(true) => None,
            Some(false) => Some(format!("{name}: {FILE} does not allow `{licence}`")),
            None => Some(format!("{name}: cannot read `{licence}`")),
        }
    }
    /// Returns whether an expression is satisfied by allowed licences; `None` if it is malformed.
    fn allow(&self, expression: &str) -> Option<bool> {
        // Older manifests separate alternatives by slashes.
        let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words = spaced.split_whitespace().collect::<Vec<_>>();
        let mut rest = &words[..];
        let allowed = self.alternatives(&mut rest)?;
        rest.is_empty().then_some(allowed)
    }
    fn alternatives(&self, words: &mut &[&str]) -> Option<bool> {
        let mut allowed = self.conjunction(words)?;
        while skip(words, "OR") {
            allowed |= self.conjunction(words)?;
        }
        Some(allowed)
    }
    fn conjunction(&self, words: &mut &[&str]) -> Option<bool> {
        let mut allowed = self.term(words)?;
        while skip(words, "AND") {
            allowed &= self.term(words)?;
        }
        Some(allowed)
    }
    /// Reads a licence, with its exception if it has one, or an expression in parentheses.
    fn term(&self, words: &mut &[&str]) -> Option<bool> {
        if skip(words, "(") {
            let allowed = self.alternatives(words)?;
            return skip(words, ")").then_some(allowed);
        }
        let licence = take(words)?;
        if !licence.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let licence = match skip(words, "WITH") {
            true => format!("{licence} WITH {}", take(words)?),
            false => licence.to_string(),
        };
        Some(self.allowed.contains(&licence.as_str()))
    }
}

fn take<'a>(words: &mut &[&'a str]) -> Option<&'a str> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    Some(first)
}
fn skip(words: &mut &[&str], word: &str) -> bool {
    let found = words.first() == Some(&word);
    if found {
        *words = &words[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\n\n\
        [[licenses.clarify]]\ncrate = \"a@1.0.0\"\nexpression = \"MIT AND Zlib\"\n";

    #[test]
    fn rules_are_read() {
        let rules = Rules::of(TEXT).unwrap();
        assert_eq!(rules.allowed, ["MIT", "Zlib"]);
        assert_eq!(rules.clarified, [("a@1.0.0", "MIT AND Zlib")]);
        assert_eq!(Rules::of("[licenses]\n").unwrap_err(), "deny.toml: no list `allow`");
        let without = TEXT.replace("expression", "text");
        let error = Rules::of(&without).unwrap_err();
        assert_eq!(error, "deny.toml: a clarification without `expression`");
    }

    #[test]
    fn expressions_are_evaluated() {
        let rules = Rules::of(TEXT).unwrap();
        for (expression, allowed) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("GPL-3.0 AND X OR MIT AND Zlib", Some(true)),
            ("(MIT OR GPL-3.0) AND X", Some(false)),
            ("(MIT OR X) AND (X OR Zlib)", Some(true)),
            // An exception to an allowed licence is listed on its own.
            ("MIT WITH LLVM-exception", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("MIT Zlib", None),
            ("(MIT", None),
            ("MIT)", None),
        ] {
            assert_eq!(rules.allow(expression), allowed, "{expression}");
        }
    }
}
