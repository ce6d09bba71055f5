//! Answers of a table: for people, as CSV, as a NumPy array.
use super::columns::{Column, in_file};
use super::npy;
use crate::failure::{Failure, Outcome};
use crate::output;
use koel::file::{Types, Width};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Rows that people are shown.
const SHOWN: usize = 20;

/// Whether each query was found, and its value.
pub struct Answers<'a> {
    pub queries: &'a Column,
    pub found: Vec<bool>,
    /// 0 of those that were not found.
    pub values: Vec<u64>,
    /// Of the table.
    pub types: Types,
}
/// Errors: a file that would be neither `.npy` nor `.csv`.
pub fn check_name(out: &Path) -> Outcome<()> {
    match is_array(out) {
        Some(_) => Ok(()),
        None => Err(in_file(out, "unknown format, expected a file named .npy or .csv")),
    }
}
/// A NumPy array; or else CSV.
fn is_array(out: &Path) -> Option<bool> {
    let extension = out.extension()?.to_str()?;
    let is = |name| extension.eq_ignore_ascii_case(name);
    (is("npy") || is("csv")).then(|| is("npy"))
}

impl Answers<'_> {
    /// Writes them all: the file is there whole or not at all.
    pub fn write(&self, out: &Path) -> Outcome {
        output::write_with(out, |file| {
            let mut to = BufWriter::with_capacity(1 << 20, file);
            let written = if is_array(out) == Some(true) { self.array(&mut to) } else { self.csv(&mut to) };
            let written = written.and_then(|()| to.flush());
            written.map_err(|e| Failure::Other(format!("{}: cannot be written: {e}", out.display())))
        })
    }
    /// Query, found (1 or 0), value.
    fn rows(&self) -> impl Iterator<Item = (u64, bool, u64)> {
        let answers = self.found.iter().zip(&self.values).enumerate();
        answers.map(|(i, (&found, &value))| (self.queries.get(i), found, value))
    }
    fn csv(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(b"key,found,value\n")?;
        for (key, found, value) in self.rows() {
            match found {
                true => writeln!(to, "{key},1,{value}"),
                false => writeln!(to, "{key},0,"),
            }?;
        }
        Ok(())
    }
    /// A structured array: `key`, `found`, `value`.
    fn array(&self, to: &mut impl Write) -> io::Result<()> {
        let keys = match self.queries {
            Column::U32(_) => Width::U32,
            Column::U64(_) => Width::U64,
        };
        let name = |width: Width| if width == Width::U32 { "<u4" } else { "<u8" };
        let fields = [("key", name(keys)), ("found", "|b1"), ("value", name(self.types.value))];
        let descr = fields.map(|(field, of)| format!("('{field}', '{of}')")).join(", ");
        to.write_all(&npy::header(&format!("[{descr}]"), self.found.len()))?;
        let number = |to: &mut dyn Write, number: u64, width: Width| match width {
            Width::U32 => to.write_all(&(number as u32).to_le_bytes()),
            Width::U64 => to.write_all(&number.to_le_bytes()),
        };
        for (key, found, value) in self.rows() {
            number(to, key, keys)?;
            to.write_all(&[found.into()])?;
            number(to, value, self.types.value)?;
        }
        Ok(())
    }
    /// The first ones, in columns.
    pub fn first_rows(&self) -> String {
        let mut text = format!("{:>20}  {:>20}\n", "key", "value");
        for (key, found, value) in self.rows().take(SHOWN) {
            let value = if found { value.to_string() } else { "not there".into() };
            text.push_str(&format!("{key:>20}  {value:>20}\n"));
        }
        if self.found.len() > SHOWN {
            text.push_str(&format!("{:>20}  {:>20}\n", "...", "..."));
        }
        text
    }
}
