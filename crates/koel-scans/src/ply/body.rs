//! Data after the header of a PLY file, number by number, as text or binary.

use super::header::{ByteOrder, Type};
use crate::error::{Place, excerpt};
use crate::report::ReadNote;

/// Number of the file, exact: every integer type fits `i64`, every float type `f64`.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Integer(i64),
    Float(f64),
}

impl Value {
    #[inline]
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Value::Integer(i) => i as f64,
            Value::Float(f) => f,
        }
    }

    /// Converts list lengths and indices, which the header check restricts to integer types.
    #[inline]
    pub(super) fn to_i64(self) -> i64 {
        match self {
            Value::Integer(i) => i,
            Value::Float(f) => f as i64,
        }
    }
}

/// Reason why a body has no next number.
pub(super) enum Fault {
    /// The data end.
    End,
    /// The line ends.
    LineEnd,
    /// The word is not a number of the type.
    Word { expected: &'static str, found: String },
}

/// Data after the header, number by number.
pub(super) trait Body {
    /// Moves to the next instance of an element.
    fn begin(&mut self) -> Result<(), Fault>;
    /// Returns the next number of the instance.
    fn value(&mut self, number: Type) -> Result<Value, Fault>;
    /// Returns the number of values left in the instance, and the number of values read.
    fn end(&mut self) -> (u64, u64);
    /// Returns the first line of an instance that spans several, and the number of its values.
    fn first_line(&self) -> Option<(Place, u64)>;
    /// Returns the place of the next number, or the line of the current instance.
    fn place(&self) -> Place;
    /// Returns the unread data.
    fn rest(&self) -> &[u8];
    /// Returns a note on instances that span several lines.
    fn spanned(&self) -> Option<ReadNote>;
}

/// Text, with an instance on each line. An instance may go on in the lines that follow if it ends
/// with the last of them; otherwise its first line has too few values.
pub(super) struct AsciiBody<'a> {
    rest: &'a [u8],
    line: u64,
    words: &'a [u8],
    used: u64,
    /// First line of the instance and its number of values, if the instance spans several.
    first: Option<(u64, u64)>,
    /// Number of instances that span several lines, and the first line of the first.
    spanned: u64,
    first_spanned: u64,
}

impl<'a> AsciiBody<'a> {
    /// Wraps the data after line number `line`, the last of the header.
    pub(super) fn new(rest: &'a [u8], line: u64) -> Self {
        AsciiBody { rest, line, words: &[], used: 0, first: None, spanned: 0, first_spanned: 0 }
    }

    fn word(&mut self) -> Option<&[u8]> {
        let words = self.words.trim_ascii_start();
        let end = words.iter().position(u8::is_ascii_whitespace).unwrap_or(words.len());
        let (word, rest) = words.split_at(end);
        self.words = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Moves to the next line with words; returns whether there is one.
    fn next_line(&mut self) -> bool {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&b| b == b'\n').unwrap_or(self.rest.len());
            self.words = self.rest[..end].trim_ascii();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            self.line += 1;
            if !self.words.is_empty() {
                return true;
            }
        }
        false
    }
}

impl Body for AsciiBody<'_> {
    fn begin(&mut self) -> Result<(), Fault> {
        if let Some((line, _)) = self.first.take() {
            if self.spanned == 0 {
                self.first_spanned = line;
            }
            self.spanned += 1;
        }
        self.used = 0;
        if self.next_line() { Ok(()) } else { Err(Fault::End) }
    }

    fn value(&mut self, number: Type) -> Result<Value, Fault> {
        if self.words.trim_ascii_start().is_empty() {
            self.first.get_or_insert((self.line, self.used));
            if !self.next_line() {
                return Err(Fault::LineEnd);
            }
        }
        let word = self.word().ok_or(Fault::LineEnd)?;
        let text = std::str::from_utf8(word).ok();
        let integer = |min: i64, max: i64| {
            let value: i64 = text?.parse().ok()?;
            (min..=max).contains(&value).then_some(Value::Integer(value))
        };
        let value = match number {
            Type::I8 => integer(i8::MIN.into(), i8::MAX.into()),
            Type::U8 => integer(0, u8::MAX.into()),
            Type::I16 => integer(i16::MIN.into(), i16::MAX.into()),
            Type::U16 => integer(0, u16::MAX.into()),
            Type::I32 => integer(i32::MIN.into(), i32::MAX.into()),
            Type::U32 => integer(0, u32::MAX.into()),
            // Parse directly to f32: going through f64 would round twice.
            Type::F32 => text.and_then(|t| t.parse::<f32>().ok()).map(|f| Value::Float(f.into())),
            Type::F64 => text.and_then(|t| t.parse().ok()).map(Value::Float),
        };
        value
            .ok_or_else(|| Fault::Word { expected: number.name(), found: excerpt(word) })
            .inspect(|_| self.used += 1)
    }

    fn end(&mut self) -> (u64, u64) {
        let mut extra = 0;
        while self.word().is_some() {
            extra += 1;
        }
        (extra, self.used)
    }

    fn first_line(&self) -> Option<(Place, u64)> {
        self.first.map(|(line, values)| (Place::Line(line), values))
    }

    fn place(&self) -> Place {
        Place::Line(self.line)
    }

    fn rest(&self) -> &[u8] {
        self.rest
    }

    fn spanned(&self) -> Option<ReadNote> {
        let more = u64::from(self.first.is_some());
        let count = self.spanned + more;
        let first = match (self.spanned, self.first) {
            (0, Some((line, _))) => line,
            _ => self.first_spanned,
        };
        let text = format!("{count} instances of elements span several lines");
        (count > 0).then_some(ReadNote { place: Place::Line(first), text })
    }
}

pub(super) struct BinaryBody<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) order: ByteOrder,
}

impl BinaryBody<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut number = *self.bytes[self.at..].first_chunk::<N>().ok_or(Fault::End)?;
        if self.order == ByteOrder::Big {
            number.reverse();
        }
        self.at += N;
        Ok(number)
    }
}

impl Body for BinaryBody<'_> {
    fn begin(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    #[inline]
    fn value(&mut self, number: Type) -> Result<Value, Fault> {
        Ok(match number {
            Type::I8 => Value::Integer(i8::from_le_bytes(self.take()?).into()),
            Type::U8 => Value::Integer(u8::from_le_bytes(self.take()?).into()),
            Type::I16 => Value::Integer(i16::from_le_bytes(self.take()?).into()),
            Type::U16 => Value::Integer(u16::from_le_bytes(self.take()?).into()),
            Type::I32 => Value::Integer(i32::from_le_bytes(self.take()?).into()),
            Type::U32 => Value::Integer(u32::from_le_bytes(self.take()?).into()),
            Type::F32 => Value::Float(f32::from_le_bytes(self.take()?).into()),
            Type::F64 => Value::Float(f64::from_le_bytes(self.take()?)),
        })
    }

    fn end(&mut self) -> (u64, u64) {
        (0, 0)
    }

    fn first_line(&self) -> Option<(Place, u64)> {
        None
    }

    fn spanned(&self) -> Option<ReadNote> {
        None
    }

    fn place(&self) -> Place {
        Place::Byte(self.at as u64)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
}
