//! Why something could not be done: one message that names place, found and expected, the kind of
//! the failure, and the next step where one is known.

mod cause;
mod kind;
mod layers;
mod words;

use eraseblock_base::Findings;
pub use kind::ErrorKind;
use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::io;
pub use words::{Setting, Words};

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of any layer, ready to be shown.
///
/// `Display` prints the whole chain of causes in one line, so there is no `source`.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Words,
    hint: Option<Words>,
    broken_pipe: bool,
    io: Option<io::ErrorKind>,
    /// What was being done or looked at, outermost first.
    places: Vec<String>,
    findings: Findings,
}

impl Error {
    /// Something could not be done.
    pub fn new(message: impl Into<Words>) -> Self {
        Self(Box::new(Inner {
            kind: ErrorKind::Refused,
            message: message.into(),
            hint: None,
            broken_pipe: false,
            io: None,
            places: Vec::new(),
            findings: Findings::new(),
        }))
    }

    /// The caller asks for something impossible.
    pub fn usage(message: impl Into<Words>) -> Self {
        Self::new(message).with_kind(ErrorKind::Usage)
    }

    /// The error that another one comes to: its message with those of its causes, and its kind.
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut own = Self::new(cause::message(error)).with_kind(ErrorKind::of(error));
        own.0.broken_pipe = cause::is_broken_pipe(error);
        own.0.io = cause::io_kind(error);
        if own.kind() == ErrorKind::HostFull {
            own = own.hint("free some space, or write to another disk");
        }
        if cause::is_power_off(error) {
            own = own.hint("the armed power cut fired; the chip now holds its state after the cut");
        }
        own
    }

    /// Gives it another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Words>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds another step after the one that is there.
    #[must_use]
    pub fn also(mut self, hint: impl Into<Words>) -> Self {
        self.0.hint = Some(match self.0.hint.take() {
            Some(first) => first + "; " + hint,
            None => hint.into(),
        });
        self
    }

    /// Adds the reason, unless the message says it.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        if !self.message().contains(reason) {
            self.0.message = std::mem::take(&mut self.0.message) + ": " + reason;
        }
        self
    }

    /// Begins the message with what was being done, unless it does so already.
    #[must_use]
    pub fn context(mut self, what: impl Display) -> Self {
        let begin = format!("{what}: ");
        if !self.message().starts_with(&begin) {
            self.0.message = Words::from(begin) + std::mem::take(&mut self.0.message);
        }
        let place = what.to_string();
        if self.0.places.first() != Some(&place) {
            self.0.places.insert(0, place);
        }
        self
    }

    /// Adds what was found before the failure: it may be the reason.
    #[must_use]
    pub(crate) fn with_findings(mut self, findings: Findings) -> Self {
        self.0.findings = findings;
        self
    }

    /// Says in which volume it happened.
    #[must_use]
    pub(crate) fn in_volume(self, name: &str) -> Self {
        self.context(format_args!("volume `{name}`"))
    }

    /// Returns the same error with the names that `spell` has for the settings in its message and
    /// next step: a command names its options.
    #[must_use]
    pub fn spelled(mut self, spell: impl Fn(Setting, Option<&str>) -> String) -> Self {
        self.0.message = self.0.message.spelled(&spell);
        self.0.hint = self.0.hint.map(|hint| hint.spelled(&spell));
        self
    }

    /// Returns what kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the outermost thing that was being done or looked at: usually a path.
    pub fn place(&self) -> Option<&str> {
        self.0.places.first().map(String::as_str)
    }

    /// Returns all of them, outermost first.
    pub fn places(&self) -> &[String] {
        &self.0.places
    }

    /// Returns what went wrong, in one line.
    pub fn message(&self) -> &str {
        self.0.message.as_str()
    }

    /// Returns what could be done about it: a setting by the name of its setter, or a run of the
    /// `eraseblock` command.
    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_ref().map(Words::as_str)
    }

    /// Returns what was found in the image before the failure.
    pub fn findings(&self) -> &Findings {
        &self.0.findings
    }

    /// Returns whether it is that a file does not exist.
    pub fn is_missing(&self) -> bool {
        self.0.io == Some(io::ErrorKind::NotFound)
    }

    /// Returns whether all that happened is that the reader of a pipe has left.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.broken_pipe
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.kind()).field("message", &self.message());
        if let Some(hint) = self.next_step() {
            debug.field("hint", &hint);
        }
        debug.finish_non_exhaustive()
    }
}

impl StdError for Error {}

/// An error that became one of the host on its way through [`io::Read`] or `ReadAt` is itself again.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(|error| Self::of(&error))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = error.0.io.unwrap_or(match error.kind() {
            ErrorKind::Usage => io::ErrorKind::InvalidInput,
            ErrorKind::Corruption => io::ErrorKind::InvalidData,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::FlashFull | ErrorKind::HostFull => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        });
        Self::new(kind, error)
    }
}

/// Names what was being done when an error arose.
pub trait Context<T> {
    /// Begins the error's message with `what`.
    fn context(self, what: impl Display) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T> {
        self.map_err(|error| error.into().context(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_one_line() {
        let error = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Err::<(), _>(error).context("a.ubi").unwrap_err();
        assert_eq!(error.message(), "a.ubi: no such file");
        assert_eq!((error.kind(), error.place()), (ErrorKind::Host, Some("a.ubi")));
        assert!(!error.is_broken_pipe());
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
        let pipe = Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(pipe.is_broken_pipe());
        let wrong = Error::usage("x").hint("y").also("z").because("w").because("w");
        assert_eq!((wrong.to_string().as_str(), wrong.next_step()), ("x: w", Some("y; z")));
        let through = io::Error::from(wrong);
        assert_eq!(through.kind(), io::ErrorKind::InvalidInput);
        // Reads deliver errors as those of the host; their kind and next step must survive that.
        let again = Error::from(through);
        assert_eq!((again.kind(), again.next_step()), (ErrorKind::Usage, Some("y; z")));
    }
}
