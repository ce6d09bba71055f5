//! Figures of docs/papers.md that are computed from records, listed in xtask/claims.txt. A figure
//! that no line lists is not checked.
use super::read;
use std::path::Path;

const DOCUMENT: &str = "docs/papers.md";
const CLAIMS: &str = "xtask/claims.txt";

/// Fails if a claim does not stand in the document, or differs from its record.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let document = words(&read(&root.join(DOCUMENT))?);
    let (mut number, mut wrong) = (0, vec![]);
    for (line, text) in (1..).zip(read(&root.join(CLAIMS))?.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        number += 1;
        let fault = fault(text, &document, |file| read(&root.join("results").join(file)));
        wrong.extend(fault.err().map(|e| format!("{CLAIMS}:{line}: {e}")));
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n       "));
    }
    println!("{DOCUMENT}: {number} figures equal those of their records");
    Ok(())
}
/// Returns the text with single spaces between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fault(
    claim: &str,
    document: &str,
    record: impl Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    let parts = claim.split(" | ").collect::<Vec<_>>();
    let [text, file, formula] = parts[..] else {
        return Err("expected TEXT | RECORD | SERIES @ X".into());
    };
    if !document.contains(text) {
        return Err(format!("{DOCUMENT} does not say \"{text}\""));
    }
    let (claimed, decimals) = first_number(text).ok_or(format!("no number in \"{text}\""))?;
    let csv = record(file)?;
    let found = match formula.split_once(" / ") {
        Some((a, b)) => value(a, &csv)? / value(b, &csv)?,
        None => value(formula, &csv)?,
    };
    match format!("{found:.decimals$}") == claimed {
        true => Ok(()),
        false => Err(format!("\"{text}\", but {formula} of {file} is {found:.4}")),
    }
}
/// Returns the first number of a text as it is written, and how many decimals it has.
fn first_number(text: &str) -> Option<(&str, usize)> {
    let rest = &text[text.find(|c: char| c.is_ascii_digit())?..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches('.');
    Some((number, number.split_once('.').map_or(0, |(_, decimals)| decimals.len())))
}
/// Returns the y of a series at an x in the CSV of a figure: `SERIES @ X`, or `SERIES @ X *
/// FACTOR`.
fn value(formula: &str, csv: &str) -> Result<f64, String> {
    let wrong = || format!("`{formula}`: expected SERIES @ X");
    let (series, place) = formula.split_once(" @ ").ok_or_else(wrong)?;
    let (x, factor) = place.split_once(" * ").unwrap_or((place, "1"));
    let parse = |number: &str| number.trim().parse::<f64>().map_err(|_| wrong());
    let (x, factor) = (parse(x)?, parse(factor)?);
    let name = format!("\"{series}\",");
    let points = csv.lines().filter_map(|line| line.strip_prefix(&name)?.split_once(','));
    for (at, y) in points {
        if parse(at)? == x {
            return Ok(parse(y)? * factor);
        }
    }
    Err(format!("no point `{series}` at {x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_compared_with_their_records() {
        let csv = "series,\"x\",\"y\"\n\"a, b\",2,6.04\n\"c\",2,3\n\"c\",4,0.5\n";
        let document = words("It takes 2.0\n  times as long, and 6040 in all.");
        let fault = |claim: &str| fault(claim, &document, |_| Ok(csv.into()));
        assert_eq!(fault("2.0 times as long | f | a, b @ 2 / c @ 2"), Ok(()));
        assert_eq!(fault("and 6040 in all. | f | a, b @ 2 * 1000"), Ok(()));
        for (claim, said) in [
            ("2.0 times as long | f | c @ 2", "but c @ 2 of f is 3.0000"),
            ("2.1 times as long | f | c @ 2", "does not say \"2.1 times as long\""),
            ("2.0 times as long | f | c @ 3", "no point `c` at 3"),
            ("2.0 times as long | f | c", "`c`: expected SERIES @ X"),
            ("times as long, | f | c @ 2", "no number in"),
            ("2.0 times as long | f", "expected TEXT | RECORD"),
        ] {
            let found = fault(claim).unwrap_err();
            assert!(found.contains(said), "{claim}: {found}");
        }
    }
}
