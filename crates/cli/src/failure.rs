//! Why a command could not do what was asked, ready to be shown: an error of the library, and how the
//! run ends.

use crate::spelling;
use eraseblock::error::Words;
use eraseblock::{Error, ErrorKind};
use std::any::Any;
use std::error::Error as StdError;
use std::fmt::Display;

/// How a run ends; the numbers are the exit codes of the command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Success without warnings or errors.
    Done = 0,
    /// Success, with warnings or errors among the findings.
    Findings = 1,
    /// The command line is invalid.
    Usage = 2,
    /// Failure.
    Failed = 3,
}

/// A command's error.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Error,
    /// It is done, and something went wrong with what it was done to.
    is_finding: bool,
}

impl Failure {
    fn of(error: Error) -> Self {
        Self { error: error.spelled(spelling::of), is_finding: false }
    }

    /// Something could not be done.
    pub(crate) fn new(message: impl Into<Words>) -> Self {
        Self::of(Error::new(message))
    }

    /// The command line asks for something impossible.
    pub(crate) fn usage(message: impl Into<Words>) -> Self {
        Self::of(Error::usage(message))
    }

    /// It is done, and something went wrong with what it was done to.
    pub(crate) fn finding(message: impl Into<Words>) -> Self {
        Self { is_finding: true, ..Self::new(message) }
    }

    /// The process that did the work has reported everything.
    pub(crate) fn reported(is_usage: bool) -> Self {
        if is_usage { Self::usage(String::new()) } else { Self::new(String::new()) }
    }

    /// Applies `change` to the error.
    pub(crate) fn map(self, change: impl FnOnce(Error) -> Error) -> Self {
        Self { error: change(self.error).spelled(spelling::of), ..self }
    }

    /// Adds the next step.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<Words>) -> Self {
        self.map(|error| error.hint(hint))
    }

    /// Begins the message with the current activity, unless it already does.
    #[must_use]
    pub(crate) fn context(self, what: impl Display) -> Self {
        self.map(|error| error.context(what))
    }

    /// Returns the kind of the failure.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    /// Returns the current activities and their objects, outermost first.
    pub(crate) fn places(&self) -> &[String] {
        self.error.places()
    }

    /// Returns the exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self.error.kind() {
            _ if self.is_finding => Exit::Findings,
            ErrorKind::Usage => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        self.error.message()
    }

    /// Returns the next step, if one is known.
    pub(crate) fn next_step(&self) -> Option<&str> {
        self.error.next_step()
    }

    /// Returns whether the only problem is that the reader of our output has left.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.is_broken_pipe()
    }

    /// Returns the error of the library.
    pub(crate) fn into_error(self) -> Error {
        self.error
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        if let Some(own) = (&mut error as &mut dyn Any).downcast_mut::<Option<Error>>() {
            return Self::of(own.take().expect("it was put there"));
        }
        let error = error.expect("it was put there");
        let of_host = is_of_host(&error);
        let own = Error::of(&error);
        Self::of(if of_host { own.with_kind(ErrorKind::Host) } else { own })
    }
}

/// Returns whether an error, or a cause of it, is an error number of a system call.
fn is_of_host(error: &(dyn StdError + 'static)) -> bool {
    error.is::<rustix::io::Errno>() || error.source().is_some_and(is_of_host)
}

/// Names what was being done when an error arose.
pub(crate) trait Context<T> {
    /// Begins the error's message with `what`.
    fn context(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| error.into().context(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn failures_read_as_one_line() {
        let error = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let failure = Err::<(), _>(error).context("a.ubi").unwrap_err();
        assert_eq!(failure.message(), "a.ubi: no such file");
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(!failure.is_broken_pipe());
        let pipe = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(pipe.is_broken_pipe());
        assert_eq!(Failure::from(rustix::io::Errno::NOSYS).kind(), ErrorKind::Host);
        let usage = Failure::from(Error::usage("x").hint("y"));
        assert_eq!((usage.exit(), usage.next_step()), (Exit::Usage, Some("y")));
    }
}
