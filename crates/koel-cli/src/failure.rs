//! Failures of commands: a line on standard error and an exit status.
use std::fmt::Display;

/// Result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Reason why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage or bad input: exit status 2.
    Usage(String),
    /// Anything else: exit status 1.
    Other(String),
    /// The message is already printed.
    Reported(u8),
    /// Standard output is closed, as in `koel bench | head -1`. Not an error.
    ClosedPipe,
}

impl Failure {
    /// Builds a failure for bad input from an error that names the file or setting.
    pub(crate) fn input(error: impl Display) -> Failure {
        Failure::Usage(error.to_string())
    }
}
/// Errors of the library on this machine. Bad input is recognised where it is read.
impl From<koel::Error> for Failure {
    fn from(error: koel::Error) -> Failure {
        Failure::Other(error.to_string())
    }
}
