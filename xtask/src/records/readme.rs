//! README's table of rates, from two records of `koel bench`.
use super::{parsed, thousands};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Records of the two halves: file, name of the half, and the number of million operations per
/// second in its unit.
const HALVES: [(&str, &str, f64); 2] = [
    ("results/h200/2026-11-24/bench-voxels-2.json", "H200", 1e3),
    ("results/h200/2026-11-24/bench-voxels-cpu.json", "16 cores", 1.0),
];
const OPERATIONS: [(&str, &str); 3] =
    [("build", "build"), ("find_hit", "find, present"), ("find_miss", "find, absent")];
/// Names of tables, in records and for readers.
const TABLES: [(&str, &str); 8] = [
    ("map", "map"),
    ("two-kernel", "two-kernel"),
    ("two-level", "two-level"),
    ("single-level", "single-level"),
    ("sorted", "sorted"),
    ("hashbrown", "hashbrown (FxHash; one thread builds)"),
    ("hashbrown-sharded", "hashbrown in 64 shards"),
    ("dashmap", "dashmap"),
];
/// Tables whose load is a choice that readers know.
const WITH_LOADS: [&str; 4] = ["map", "two-kernel", "two-level", "single-level"];

/// Returns the table, followed by the keys, commits and dates that it is from.
pub(super) fn table(root: &Path) -> Result<String, String> {
    let records = HALVES.map(|(file, ..)| parsed(root, file));
    let [first, second] = &records;
    let records = [first.as_ref().map_err(String::clone)?, second.as_ref().map_err(String::clone)?];
    render(records)
}
fn render(records: [&Value; 2]) -> Result<String, String> {
    let mut text = String::from("|");
    for (_, half, _) in HALVES {
        for (i, (_, operation)) in OPERATIONS.iter().enumerate() {
            let half = if i == 0 { format!("{half}: ") } else { String::new() };
            let _ = write!(text, " | {half}{operation}");
        }
    }
    text += " |\n|---|---|---|---|---|---|---|\n";
    for (table, name) in TABLES {
        let rows = |record| rows_of(record).filter(move |row| row["table"] == table);
        let load = records.iter().find_map(|record| rows(record).next()?["load"].as_f64());
        let load = load
            .filter(|_| WITH_LOADS.contains(&table))
            .map_or(String::new(), |load| format!(", load {}", (100.0 * load).round() / 100.0));
        let _ = write!(text, "| {name}{load}");
        for (record, (file, _, unit)) in records.iter().zip(HALVES) {
            let is_there = rows(record).next().is_some();
            for (operation, _) in OPERATIONS {
                let row = rows(record).find(|row| row["op"] == operation);
                let rate = row.map(|row| row["mops"].as_f64().filter(|_| row["verified"] == true));
                let _ = match rate {
                    Some(Some(rate)) => write!(text, " | {}", three_digits(rate / unit)),
                    Some(None) => {
                        return Err(format!("{file}: {table}, {operation}: an answer was wrong"));
                    }
                    None if is_there => {
                        return Err(format!("{file}: {table} has no row `{operation}`"));
                    }
                    None => write!(text, " |"),
                };
            }
        }
        text += " |\n";
    }
    text.push('\n');
    for (i, (record, (file, half, _))) in records.iter().zip(HALVES).enumerate() {
        let field = |name: &str| record[name].as_str().ok_or_else(|| format!("{file}: no {name}"));
        let keys = rows_of(record)
            .next()
            .and_then(|row| row["n"].as_u64())
            .ok_or_else(|| format!("{file}: no rows"))?;
        let day = field("date")?.split('T').next().unwrap_or_default();
        let end = if i == 0 { ";\n" } else { ".\n" };
        let commit = field("commit")?;
        let _ =
            write!(text, "{half}: [{} keys, commit {commit}, {day}]({file}){end}", thousands(keys));
    }
    Ok(text)
}
fn rows_of(record: &Value) -> impl Iterator<Item = &Value> {
    record["rows"].as_array().into_iter().flatten()
}
pub(super) fn three_digits(rate: f64) -> String {
    match rate {
        r if r < 9.995 => format!("{r:.2}"),
        r if r < 99.95 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(tables: &[&str], verified: bool) -> Value {
        let row = |table: &&str, op: &str, mops: f64| {
            json!({
                "table": table, "op": op, "n": 5464075, "load": 0.7999, "mops": mops,
                "verified": verified
            })
        };
        let rows = tables.iter().flat_map(|table| {
            [
                row(table, "build", 36_312.0),
                row(table, "find_hit", 6.6),
                row(table, "find_miss", 99.96),
            ]
        });
        json!({
            "rows": rows.collect::<Vec<_>>(), "commit": "bb5cac200ddd",
            "date": "2026-11-20T18:17:21Z"
        })
    }

    #[test]
    fn a_table_is_made_of_two_records() {
        let (gpu, cpu) = (record(&["map"], true), record(&["map", "dashmap"], true));
        let text = render([&gpu, &cpu]).unwrap();
        assert!(
            text.starts_with("| | H200: build | find, present | find, absent | 16 cores: build |"),
            "{text}"
        );
        assert!(
            text.contains("| map, load 0.8 | 36.3 | 0.01 | 0.10 | 36312 | 6.60 | 100 |\n"),
            "{text}"
        );
        assert!(text.contains("| dashmap | | | | 36312 | 6.60 | 100 |\n"), "{text}");
        assert!(
            text.contains("H200: [5,464,075 keys, commit bb5cac200ddd, 2026-11-20](results/h200/"),
            "{text}"
        );
        let said = render([&record(&["map"], false), &cpu]).unwrap_err();
        assert!(said.contains("map, build: an answer was wrong"), "{said}");
    }
}
