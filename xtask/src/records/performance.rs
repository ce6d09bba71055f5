//! Tables of docs/performance.md, each from the newest records that have its numbers.
mod tables;

use super::newest;
use super::read;
use super::readme::three_digits;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;
use tables::{GOALS, PEERS, TABLES};

/// Table of one subject. A cell's query is that of its column, then that of its row.
struct Table {
    name: &'static str,
    /// Heading of the first column.
    first: &'static str,
    /// Heading and query of each column.
    columns: &'static [(&'static str, &'static str)],
    /// Label and query of each row.
    rows: &'static [(&'static str, &'static str)],
    /// Number of the first row that counts for the best, median and worst of each column.
    spread: Option<usize>,
}

/// Goal: what, the number aimed at, queries of what is reached (and what it is divided by), and
/// what bounds it.
struct Goal(
    &'static str,
    &'static str,
    &'static [(&'static str, Option<&'static str>)],
    &'static str,
);

/// Names of the generated parts of the page.
pub(super) fn parts() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name).chain(["peers", "goals"])
}
/// Returns the part of this name, followed by links to its records.
pub(super) fn part(root: &Path, name: &str) -> Result<String, String> {
    let records = Records::of(root)?;
    let text = match (name, TABLES.iter().find(|table| table.name == name)) {
        (_, Some(table)) => table.text(&records),
        ("peers", _) => peers(root, &records),
        ("goals", _) => goals(&records),
        _ => Err("no such table".into()),
    };
    let text = text.map_err(|e| format!("docs/performance.md, table `{name}`: {e}"))?;
    Ok(format!("{text}\n{}\n", records.links()))
}

impl Table {
    fn text(&self, records: &Records) -> Result<String, String> {
        let mut text = format!("| {}", self.first);
        self.columns.iter().for_each(|(heading, _)| text += &format!(" | {heading}"));
        text += &format!(" |\n|---{}|\n", "|---".repeat(self.columns.len()));
        let mut numbers = vec![vec![]; self.columns.len()];
        for (row, (label, query)) in self.rows.iter().enumerate() {
            let cells = self
                .columns
                .iter()
                .map(|(_, of_column)| records.number(&format!("{of_column} {query}")));
            let cells = cells.collect::<Result<Vec<_>, _>>()?;
            if cells.iter().all(Option::is_none) {
                return Err(format!("no record has a number of the row `{label}`"));
            }
            if self.spread.is_some_and(|first| row >= first) {
                numbers.iter_mut().zip(&cells).for_each(|(all, cell)| all.extend(cell));
            }
            text += &line(label, &cells);
        }
        if self.spread.is_some() {
            for all in &mut numbers {
                all.sort_by(f64::total_cmp);
            }
            for (label, halves) in [("best", 2), ("median", 1), ("worst", 0)] {
                let cells =
                    numbers.iter().map(|all| all.get(all.len().saturating_sub(1) * halves / 2));
                let cells = cells.map(|cell| cell.copied()).collect::<Vec<_>>();
                text += &line(&format!("**{label} of these inputs**"), &cells);
            }
        }
        Ok(text)
    }
}
/// Returns a row; a number that no record has is left blank.
fn line(label: &str, cells: &[Option<f64>]) -> String {
    let mut text = format!("| {label}");
    for cell in cells {
        text += &cell.map_or(" |".into(), |number| format!(" | {}", three_digits(number)));
    }
    text + " |\n"
}

/// Records of all machines, the newest first, and those that were read.
struct Records<'a> {
    root: &'a Path,
    /// Paths below `results/`, by machine and name.
    paths: BTreeMap<(String, String), Vec<String>>,
    rows: RefCell<HashMap<String, Vec<Value>>>,
    used: RefCell<BTreeSet<String>>,
}
impl<'a> Records<'a> {
    fn of(root: &'a Path) -> Result<Records<'a>, String> {
        let paths = newest::paths(root)?;
        Ok(Records { root, paths, rows: RefCell::default(), used: RefCell::default() })
    }
    /// Returns the number that a query asks for, from the newest record that has it: words
    /// `field=value`, of which the last counts for each field. `machine` and `record` (names,
    /// separated by `|`) choose records, `value` is what to compute, all others choose the row.
    fn number(&self, query: &str) -> Result<Option<f64>, String> {
        let words = query.split_whitespace().map(|word| {
            word.split_once('=').ok_or_else(|| format!("`{word}` in `{query}` is not FIELD=VALUE"))
        });
        let mut words = words.collect::<Result<HashMap<_, _>, _>>()?;
        let mut take = |name| words.remove(name).ok_or(format!("no {name} in `{query}`"));
        let (machine, names, value) = (take("machine")?, take("record")?, take("value")?);
        let of_name = |name| self.paths.get(&(machine.to_string(), str::to_string(name)));
        let mut paths = names.split('|').filter_map(of_name).flatten().collect::<Vec<_>>();
        if paths.is_empty() {
            return Err(format!("no record `{names}` of {machine}"));
        }
        paths.sort_by(|a, b| newest::order(b).cmp(&newest::order(a)));
        for path in paths {
            self.load(path)?;
            let rows = self.rows.borrow();
            let is_asked = |row: &&Value| words.iter().all(|(field, is)| matches(&row[*field], is));
            let Some((row, number)) = rows[path]
                .iter()
                .filter(is_asked)
                .find_map(|row| Some((row, compute(row, value)?)))
            else {
                continue;
            };
            if row["verified"] == false {
                return Err(format!("results/{path}: an answer was wrong: `{query}`"));
            }
            self.used.borrow_mut().insert(path.clone());
            return Ok(Some(number));
        }
        Ok(None)
    }
    fn needed(&self, query: &str) -> Result<f64, String> {
        self.number(query)?.ok_or_else(|| format!("no record has `{query}`"))
    }
    fn load(&self, path: &str) -> Result<(), String> {
        if !self.rows.borrow().contains_key(path) {
            let text = read(&self.root.join("results").join(path))?;
            let parse = |text| {
                serde_json::from_str::<Value>(text).map_err(|e| format!("results/{path}: {e}"))
            };
            let rows = match path.ends_with(".jsonl") {
                true => text.lines().map(parse).collect::<Result<_, _>>()?,
                false => parse(&text)?["rows"].as_array().cloned().unwrap_or_default(),
            };
            self.rows.borrow_mut().insert(path.to_string(), rows);
        }
        Ok(())
    }
    fn links(&self) -> String {
        let link = |path: &String| {
            let name = path.rsplit_once('.').map_or(path.as_str(), |(name, _)| name);
            format!("[{name}](../results/{path})")
        };
        format!("From {}.", self.used.borrow().iter().map(link).collect::<Vec<_>>().join(",\n"))
    }
}
/// Returns whether a field has this value, or one of these texts, separated by `|`; numbers may be
/// powers, such as 2^24.
fn matches(field: &Value, is: &str) -> bool {
    match field {
        Value::String(text) => is.split('|').any(|is| text == is),
        Value::Number(number) => number.as_f64() == parsed(is),
        Value::Bool(is_so) => is == is_so.to_string(),
        _ => false,
    }
}
fn parsed(number: &str) -> Option<f64> {
    match number.split_once('^') {
        Some((base, power)) => Some(base.parse::<f64>().ok()?.powi(power.parse().ok()?)),
        None => number.parse().ok(),
    }
}
/// Computes fields and numbers that are divided or subtracted, from left to right; `a.0` is the
/// first of an array.
fn compute(row: &Value, value: &str) -> Option<f64> {
    let term = |text: &str| {
        parsed(text).or_else(|| match text.split_once('.') {
            Some((field, place)) => row[field][place.parse::<usize>().ok()?].as_f64(),
            None => row[text].as_f64(),
        })
    };
    let mut rest = value;
    let mut result = None::<f64>;
    loop {
        let sign = if result.is_none() { ' ' } else { rest.chars().next()? };
        let begin = usize::from(result.is_some());
        let end = rest[begin..].find(['/', '-']).map_or(rest.len(), |at| begin + at);
        let number = term(&rest[begin..end])?;
        result = Some(match (result, sign) {
            (Some(before), '/') => before / number,
            (Some(before), _) => before - number,
            (None, _) => number,
        });
        rest = &rest[end..];
        if rest.is_empty() {
            return result;
        }
    }
}

/// Returns koel's rates next to those of the fastest other program.
fn peers(root: &Path, records: &Records) -> Result<String, String> {
    let text = read(&root.join("results/peers-h200.csv"))?;
    let mut table = String::from(
        "| H200, 32-bit keys and values | koel | fastest other program | its rate |\n|---|---|---|---|\n",
    );
    for (label, op, n, load, query) in PEERS {
        let of_row = |line: &'_ str| {
            let fields = line.split(',').collect::<Vec<_>>();
            let &[of_op, of_n, of_load, name, rate, ..] = &fields[..] else { return None };
            let is_it =
                of_op == *op && parsed(of_n) == parsed(n) && parsed(of_load) == parsed(load);
            Some((rate.parse::<f64>().ok().filter(|_| is_it)?, name.to_string()))
        };
        let rows = text.lines().filter_map(of_row);
        let fastest = rows.max_by(|a, b| a.0.total_cmp(&b.0));
        let (rate, name) = fastest.ok_or_else(|| format!("peers-h200.csv: no {op} of {n}"))?;
        let query = format!(
            "machine=h200 record=map|map-builds n={n} load={load} keys=unique bits=32 {query}"
        );
        let koel = records.needed(&format!("{query} value=gps"))?;
        let (koel, rate) = (three_digits(koel), three_digits(rate / 1e3));
        let _ = writeln!(table, "| {label} | {koel} | `{name}` | {rate} |");
    }
    Ok(table)
}

/// Returns what is aimed at, reached, and bound by.
fn goals(records: &Records) -> Result<String, String> {
    let mut table = String::from("| H200 | goal | reached | bound by |\n|---|---|---|---|\n");
    for Goal(what, goal, queries, bound) in GOALS {
        let reached = queries.iter().map(|(query, by)| {
            let by = by.map_or(Ok(1.0), |by| records.needed(by))?;
            Ok(three_digits(records.needed(query)? / by))
        });
        let reached = reached.collect::<Result<Vec<_>, String>>()?.join("; ");
        let _ = writeln!(table, "| {what} | {goal} | {reached} | {bound} |");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_computed() {
        let row = json!({ "n": 1048576, "us": 32.0, "ms": [5.0, 2.0], "op": "build", "ok": true });
        assert_eq!(compute(&row, "us"), Some(32.0));
        assert_eq!(compute(&row, "n/us/1e3"), Some(32.768));
        assert_eq!(compute(&row, "ms.0-ms.1"), Some(3.0));
        assert_eq!(compute(&row, "ms.2"), None);
        assert!(matches(&row["n"], "2^20") && matches(&row["op"], "build"));
        assert!(matches(&row["ok"], "true") && !matches(&row["none"], "0"));
    }

    #[test]
    fn numbers_are_those_of_the_newest_record_that_has_them() {
        let root = std::env::temp_dir().join(format!("koel-performance-{}", std::process::id()));
        let write = |path: &str, rows: &str| {
            let path = root.join("results").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, rows).unwrap();
        };
        write("m/2026-11-22/map.jsonl", "{\"n\":8,\"gps\":1.5}\n{\"n\":4,\"gps\":2.5}\n");
        write("m/2026-11-24/map-2.jsonl", "{\"n\":4,\"gps\":4.5}\n");
        write(
            "m/2026-11-24/map.jsonl",
            "{\"n\":4,\"gps\":3.5}\n{\"n\":2,\"gps\":1,\"verified\":false}",
        );
        let records = Records::of(&root).unwrap();
        let of = |n: u32| records.number(&format!("machine=m record=map value=gps n={n}"));
        assert_eq!((of(4), of(8), of(16)), (Ok(Some(4.5)), Ok(Some(1.5)), Ok(None)));
        assert!(of(2).unwrap_err().contains("an answer was wrong"));
        assert!(records.number("machine=m record=set value=gps").is_err());
        let links = records.links();
        assert!(links.contains("m/2026-11-24/map-2") && links.contains("m/2026-11-22/map"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
