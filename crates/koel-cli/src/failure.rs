//! How a command ends when it does not succeed: a line on standard error and an exit status.
use std::fmt::Display;

/// How a command ends.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Bad usage or bad input: exit status 2.
    Usage(String),
    /// Anything else: exit status 1.
    Other(String),
    /// Everything that there is to say has been said.
    Reported(u8),
    /// Nobody reads standard output any more, as in `koel bench | head -1`: nothing went wrong.
    ClosedPipe,
}

impl Failure {
    /// Bad input: an error that names the file or setting itself.
    pub fn input(error: impl Display) -> Failure {
        Failure::Usage(error.to_string())
    }
}
/// What the library cannot do on this machine; bad input is told apart where it is read.
impl From<koel::Error> for Failure {
    fn from(error: koel::Error) -> Failure {
        Failure::Other(error.to_string())
    }
}
