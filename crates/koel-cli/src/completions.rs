//! `koel completions`: scripts that let a shell complete koel's commands and options.
use crate::failure::{Failure, Outcome};
use crate::{Cli, Global, output};
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  koel completions bash > ~/.local/share/bash-completion/completions/koel
  koel completions zsh > ~/.zfunc/_koel      to a folder in $fpath
  koel completions fish > ~/.config/fish/completions/koel.fish
  koel completions elvish >> ~/.config/elvish/rc.elv
  koel completions powershell >> $PROFILE";

/// Print a shell's completion script for koel's commands and options
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell to complete in
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    if global.json.is_some() {
        return Err(Failure::Usage("--json: koel completions has no result to report".into()));
    }
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::command(), "koel", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
