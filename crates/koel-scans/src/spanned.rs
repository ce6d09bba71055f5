//! Records of a text that span several lines.

use crate::error::Place;
use crate::report::ReadNote;

/// Records of a text that span several lines.
#[derive(Default)]
pub(crate) struct Spanned {
    count: u64,
    first: Place,
}

impl Spanned {
    /// Counts a record that begins at a line.
    pub(crate) fn add(&mut self, line: Place) {
        if self.count == 0 {
            self.first = line;
        }
        self.count += 1;
    }
    pub(crate) fn note(&self) -> Option<ReadNote> {
        let text = format!("{} records span several lines", self.count);
        (self.count > 0).then_some(ReadNote { place: self.first, text })
    }
}

/// Returns the length in bytes and the number of lines of the record at the beginning of a text, if
/// it spans several lines: its `words` words end with the last of them. Otherwise the first line is
/// the record, with too few words.
pub(crate) fn several_lines(text: &[u8], words: u64) -> Option<(usize, u64)> {
    let (mut found, mut lines, mut end) = (0, 0, 0);
    for line in text.split(|&b| b == b'\n') {
        lines += 1;
        end += line.len() + usize::from(lines > 1);
        let in_line = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        found += in_line.count() as u64;
        if found >= words || lines == 1 && found == 0 {
            return (found == words && lines > 1).then_some((end, lines));
        }
    }
    None
}
