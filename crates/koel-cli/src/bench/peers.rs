//! Rates of other programs from a CSV file, to draw for comparison.
use super::args::Op;
use std::io;
use std::path::{Path, PathBuf};

/// Required first columns; a note may follow.
const COLUMNS: [&str; 5] = ["op", "n", "load", "peer", "mops"];
const NOTE: &str = "note";

/// Reason why a file of rates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeersError {
    #[error("{}: cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error(
        "{}: line {line}: the heading is '{found}', expected '{}' and optionally '{NOTE}'",
        file.display(), COLUMNS.join(",")
    )]
    Heading { file: PathBuf, line: usize, found: String },
    #[error("{}: has no heading, expected '{}'", file.display(), COLUMNS.join(","))]
    NoHeading { file: PathBuf },
    #[error("{}: line {line}: {found} fields, expected {expected}", file.display())]
    Fields { file: PathBuf, line: usize, found: usize, expected: usize },
    #[error("{}: line {line}, field '{field}': '{found}', expected {expected}", file.display())]
    Field {
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        field: &'static str,
        found: String,
        expected: &'static str,
    },
}

/// One rate of another program.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Peer {
    pub name: String,
    /// Name of the operation in the file.
    op: String,
    pub n: usize,
    pub load: f64,
    /// Operations per second.
    pub rate: f64,
}

/// The rates of a file.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The first comment: machine, date and method.
    about: String,
    all: Vec<Peer>,
}

impl Peers {
    /// Reads a file.
    ///
    /// Errors: the file cannot be read, or a field is invalid.
    pub(crate) fn read(file: &Path) -> Result<Peers, PeersError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| PeersError::Read { file: file.into(), source })?;
        Peers::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Peers, PeersError> {
        let mut about = String::new();
        let mut columns = 0;
        let mut all = vec![];
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            if let Some(comment) = text.strip_prefix('#') {
                if about.is_empty() {
                    about = comment.trim().into();
                }
                continue;
            }
            let fields = text.split(',').map(str::trim).collect::<Vec<&str>>();
            let of_file = || file.to_path_buf();
            if columns == 0 {
                let rest = fields.strip_prefix(&COLUMNS);
                if !rest.is_some_and(|rest| rest.is_empty() || rest == [NOTE]) {
                    return Err(PeersError::Heading { file: of_file(), line, found: text.into() });
                }
                columns = fields.len();
                continue;
            }
            let [op, n, load, name, mops, ..] = fields[..] else {
                return Err(PeersError::Fields {
                    file: of_file(),
                    line,
                    found: fields.len(),
                    expected: columns,
                });
            };
            if fields.len() != columns {
                return Err(PeersError::Fields {
                    file: of_file(),
                    line,
                    found: fields.len(),
                    expected: columns,
                });
            }
            let wrong = |field, found: &str, expected| {
                Err(PeersError::Field {
                    file: of_file(),
                    line,
                    field,
                    found: found.into(),
                    expected,
                })
            };
            let number = |text: &str| {
                text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0)
            };
            let Some(n) = n.parse::<usize>().ok().filter(|&n| n > 0) else {
                return wrong("n", n, "a whole number above 0");
            };
            let Some(load) = number(load) else { return wrong("load", load, "a number above 0") };
            let Some(mops) = number(mops) else { return wrong("mops", mops, "a number above 0") };
            for (field, text) in [("op", op), ("peer", name)] {
                if text.is_empty() {
                    return wrong(field, text, "a name");
                }
            }
            all.push(Peer { name: name.into(), op: op.into(), n, load, rate: 1e6 * mops });
        }
        if columns == 0 {
            return Err(PeersError::NoHeading { file: file.into() });
        }
        Ok(Peers { about, all })
    }

    /// Describes where and when they were measured, relative to `device`. Claims the same kind of
    /// machine only if the comment names it.
    pub(crate) fn measured(&self, device: &str) -> String {
        let is_date = |word: &&str| {
            let parts = word
                .split('-')
                .map(|part| (part.len(), part.parse::<u16>().is_ok()))
                .collect::<Vec<_>>();
            parts == [(4, true), (2, true), (2, true)]
        };
        let date = self.about.split(|c: char| !c.is_ascii_digit() && c != '-').find(is_date);
        let is_same = self.about.contains(device);
        match (date, is_same) {
            (Some(date), true) => format!("measured {date} on the same kind of machine"),
            (Some(date), false) => {
                let machine = self.about.split([',', ';']).next().unwrap_or_default();
                format!("measured {date} on {machine}, a different machine")
            }
            (None, true) => "measured on the same kind of machine".into(),
            (None, false) => "measured elsewhere".into(),
        }
    }

    /// Returns the fastest at an operation for each number of keys and load, ascending.
    pub(crate) fn best(&self, op: Op) -> Vec<&Peer> {
        let name = match op {
            Op::Build | Op::BuildCold | Op::Rebuild => "build".into(),
            Op::BuildHost | Op::GetHost => op.name(),
            Op::Find(share) => format!("find_hit{share}"),
        };
        let mut best: Vec<&Peer> = vec![];
        for peer in self.all.iter().filter(|peer| peer.op == name) {
            match best.iter_mut().find(|b| b.n == peer.n && b.load == peer.load) {
                Some(b) if b.rate < peer.rate => *b = peer,
                Some(_) => {}
                None => best.push(peer),
            }
        }
        best.sort_by(|a, b| a.n.cmp(&b.n).then(a.load.total_cmp(&b.load)));
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# One GPU-9, CUDA 13.0, 2026-11-20; median of 7\n\n\
        op,n,load,peer,mops,note\nbuild,64,0.8,slow,1.5,\n\
        build,64,0.8,fast,20,x y\nbuild,32,0.9,slow,3,\n\
        find_hit50,64,0.8,half,7,\n# more\nbuild_set,64,0.8,other,99,\n";

    fn parse(text: &str) -> Result<Peers, String> {
        Peers::parse(Path::new("a/peers.csv"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn the_fastest_are_kept() {
        let peers = parse(GOOD).unwrap();
        let best = |op| {
            peers.best(op).into_iter().map(|p| (p.name.as_str(), p.n, p.rate)).collect::<Vec<_>>()
        };
        for op in [Op::Build, Op::Rebuild] {
            assert_eq!(best(op), [("slow", 32, 3e6), ("fast", 64, 2e7)]);
        }
        assert_eq!(best(Op::FIND_HALF), [("half", 64, 7e6)]);
        assert_eq!(best(Op::Find(5)), []);
        assert_eq!(peers.measured("GPU-9"), "measured 2026-11-20 on the same kind of machine");
        assert_eq!(peers.measured("CPU"), "measured 2026-11-20 on One GPU-9, a different machine");
        let unknown = parse("op,n,load,peer,mops\nbuild,64,0.8,slow,1.5\n").unwrap();
        assert_eq!((unknown.measured("CPU"), unknown.all.len()), ("measured elsewhere".into(), 1));
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let head = "# comment\nop,n,load,peer,mops,note\n";
        for (text, says) in [
            ("".into(), "a/peers.csv: has no heading, expected 'op,n,load,peer,mops'"),
            ("# only\n".into(), "a/peers.csv: has no heading, expected 'op,n,load,peer,mops'"),
            (
                "op,n,load\n".into(),
                "line 1: the heading is 'op,n,load', expected 'op,n,load,peer,mops' \
                 and optionally 'note'",
            ),
            (format!("{head}build,1,0.8,x,5\n"), "line 3: 5 fields, expected 6"),
            (format!("{head}build,1\n"), "line 3: 2 fields, expected 6"),
            (format!("{head}build,1,0.8,x,5,a,b\n"), "line 3: 7 fields, expected 6"),
            (
                format!("{head}\nbuild,-1,0.8,x,5,\n"),
                "line 4, field 'n': '-1', expected a whole number above 0",
            ),
            (
                format!("{head}build,1,0,x,5,\n"),
                "line 3, field 'load': '0', expected a number above 0",
            ),
            (
                format!("{head}build,1,0.8,x,NaN,\n"),
                "line 3, field 'mops': 'NaN', expected a number above 0",
            ),
            (format!("{head}build,1,0.8,,5,\n"), "line 3, field 'peer': '', expected a name"),
            (format!("{head},1,0.8,x,5,\n"), "line 3, field 'op': '', expected a name"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with("a/peers.csv") && error.ends_with(says), "{text:?}: {error}");
        }
        let missing = Peers::read(Path::new("no/such.csv")).unwrap_err();
        assert!(
            matches!(missing, PeersError::Read { .. })
                && missing.to_string().starts_with("no/such.csv: cannot be")
        );
    }

    /// The recorded rates can be drawn.
    #[test]
    fn the_recorded_peers_are_read() {
        let peers = Peers::read(Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../results/peers-h200.csv"
        )))
        .unwrap();
        assert_eq!(
            peers.measured("NVIDIA H200"),
            "measured 2026-11-20 on the same kind of machine"
        );
        let best = peers.best(Op::Build);
        let at = |n: usize, load: f64| best.iter().find(|p| p.n == n && p.load == load).unwrap();
        assert_eq!(at(1 << 22, 0.8).name, "alcantara2011_paperhash");
        assert!((at(1 << 27, 0.8).rate - 12588.9e6).abs() < 1.0);
        assert!(peers.best(Op::FIND_MISS).len() > 10);
    }
}
