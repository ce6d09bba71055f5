//! `koel man`: manual pages, made from the texts of `--help`.
use crate::failure::{Failure, Outcome};
use crate::{Cli, Global, output};
use clap::CommandFactory;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  koel man --out ~/.local/share/man/man1     then: man koel, man koel-bench, man koel-models-add
  koel man > koel.1                          only the page of koel itself";

/// Write the manual pages of koel and of every command
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder for all pages [default: print the page of koel itself to standard output]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the pages.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    if global.json.is_some() {
        return Err(Failure::Usage("--json: koel man has no result to report".into()));
    }
    let mut koel = Cli::command().disable_help_subcommand(true);
    koel.build();
    let failure = |e: io::Error| Failure::Other(format!("manual pages: {e}"));
    let Some(folder) = args.out else {
        return output::print(&String::from_utf8_lossy(&page(&koel).map_err(failure)?.content));
    };
    output::check_folder(&folder)?;
    let pages = pages(&koel).map_err(failure)?;
    pages.iter().try_for_each(|page| output::write_file(&folder.join(&page.file), &page.content))
}

struct Page {
    file: String,
    content: Vec<u8>,
}

/// Returns the pages of a command and its subcommands.
fn pages(command: &clap::Command) -> io::Result<Vec<Page>> {
    let mut all = vec![page(command)?];
    for below in command.get_subcommands() {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &clap::Command) -> io::Result<Page> {
    // clap_mangen would fill the lines of the examples into one paragraph and put the version
    // before them.
    let plain = command.clone().after_help(Resettable::Reset).version(Resettable::Reset);
    // No date, so that the pages of a version never change. An empty date would be dropped and the
    // source shown in its place.
    let man = Man::new(plain)
        .date(" ")
        .source(concat!("koel ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut content = vec![];
    man.render(&mut content)?;
    if let Some(text) = command.get_after_help() {
        after_help(&text.to_string()).to_writer(&mut content)?;
    }
    Ok(Page { file: man.get_filename(), content })
}

/// Formats the text below the options of `--help`: examples keep their lines, other paragraphs are
/// filled.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut notes = false;
    for paragraph in text.split("\n\n") {
        let mut lines = paragraph.lines().peekable();
        if lines.next_if(|line| line.starts_with("Example")).is_some() {
            roff.control("SH", ["EXAMPLES"]).control("nf", []);
            lines.for_each(|line| {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            });
            roff.control("fi", []);
            continue;
        }
        if !notes {
            roff.control("SH", ["NOTES"]);
            notes = true;
        } else {
            roff.control("PP", []);
        }
        lines.for_each(|line| {
            roff.text([roman(line)]);
        });
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_notes_are_filled() {
        let text = after_help(
            "Examples:\n  koel a    one\n  koel b\n             more\n\n\
             A note\nof two lines.\n\nAnother.",
        );
        let roff = text.to_roff();
        let expected = [
            ".SH EXAMPLES",
            ".nf",
            "koel a    one",
            "koel b",
            "           more",
            ".fi",
            ".SH NOTES",
            "A note",
            "of two lines.",
            ".PP",
            "Another.",
        ];
        assert_eq!(roff.lines().collect::<Vec<_>>(), expected);
    }
}
