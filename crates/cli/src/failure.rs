//! Why a command could not do what was asked, ready to be shown: one message that names place,
//! found and expected, and a hint where there is a next step.

mod class;

pub(crate) use class::Class;
use eraseblock_mtd::MtdError;
use eraseblock_ubi::UbiError;
use eraseblock_ubifs::UbifsError;
use std::error::Error;
use std::fmt::Display;
use std::io;

/// How a run ends; the numbers are the exit codes of the command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, nothing to remark.
    Done = 0,
    /// Done, with warnings or errors among the findings.
    Findings = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Could not do it.
    Failed = 3,
}

/// A command's error.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    broken_pipe: bool,
    class: Class,
    /// What was being done or looked at, outermost first.
    places: Vec<String>,
}

impl Failure {
    /// Something could not be done.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
            hint: None,
            broken_pipe: false,
            class: Class::Refused,
            places: Vec::new(),
        }
    }

    /// The command line asks for something impossible.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, class: Class::Usage, ..Self::new(message) }
    }

    /// It is done, and something went wrong with what it was done to.
    pub(crate) fn finding(message: impl Into<String>) -> Self {
        Self { exit: Exit::Findings, ..Self::new(message) }
    }

    /// The process that did the work has told everything.
    pub(crate) fn told_already(is_usage: bool) -> Self {
        let exit = if is_usage { Exit::Usage } else { Exit::Failed };
        Self { exit, ..Self::new(String::new()) }
    }

    /// Adds the next step.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds another step behind the one that is there.
    #[must_use]
    pub(crate) fn also(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        self.hint = Some(self.hint.map_or(hint.clone(), |first| format!("{first}; {hint}")));
        self
    }

    /// Adds what lies behind it, unless the message says so.
    #[must_use]
    pub(crate) fn because(mut self, reason: &str) -> Self {
        if !self.message.contains(reason) {
            self.message = format!("{}: {reason}", self.message);
        }
        self
    }

    /// Puts what was being done in front of the message, unless it is there already.
    #[must_use]
    pub(crate) fn context(mut self, what: impl Display) -> Self {
        let begin = format!("{what}: ");
        if !self.message.starts_with(&begin) {
            self.message.insert_str(0, &begin);
        }
        let place = what.to_string();
        if self.places.first() != Some(&place) {
            self.places.insert(0, place);
        }
        self
    }

    /// What kind of failure it is.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// What was being done or looked at, outermost first.
    pub(crate) fn places(&self) -> &[String] {
        &self.places
    }

    /// How the run ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What could be done about it.
    pub(crate) fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether all that happened is that nobody reads our output any more.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut failure = Self::new(chain(&error));
        failure.broken_pipe = is_broken_pipe(&error);
        failure.class = Class::of(&error);
        if failure.class == Class::HostFull {
            failure = failure.hint("free some space, or write to another disk");
        }
        if is_power_off(&error) {
            failure = failure
                .hint("an armed power cut has come; whoever opens the chip now finds what it left");
        }
        failure
    }
}

/// Whether an error, or a cause of it, is that nobody reads what is written.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        || error.source().is_some_and(is_broken_pipe)
}

/// Whether an error, or a cause of it, is that a simulated chip has lost its power.
fn is_power_off(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(MtdError::PowerOff))
        || matches!(error.downcast_ref(), Some(UbiError::Device(MtdError::PowerOff)))
        || matches!(error.downcast_ref(), Some(UbifsError::Device(MtdError::PowerOff)))
        || error.source().is_some_and(is_power_off)
}

/// The message of an error and of its causes, without repeating what the outer one already says.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        cause = error.source();
    }
    text
}

/// Names what was being done when an error arose.
pub(crate) trait Context<T> {
    /// Puts `what` in front of the error's message.
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

    #[test]
    fn failures_read_as_one_line() {
        let error = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let failure = Err::<(), _>(error).context("a.ubi").unwrap_err();
        assert_eq!(failure.message(), "a.ubi: no such file");
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(!failure.is_broken_pipe());
        let pipe = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(pipe.is_broken_pipe());
    }
}
