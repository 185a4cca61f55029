//! Errors and findings, as the Python half takes them.

use eraseblock::{Error, ErrorKind, Findings, Severity};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::any::Any;
use std::io;

/// A finding: severity, code, place, message.
pub(crate) type Found = (&'static str, &'static str, String, String);

/// Findings, and how many more there were.
pub(crate) type Listed = (Vec<Found>, u64);

/// Returns findings as tuples.
pub(crate) fn listed(findings: &Findings) -> Listed {
    let tuples = findings.iter().map(|finding| {
        let severity = match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        (severity, finding.code.name(), finding.at.to_string(), finding.message.clone())
    });
    (tuples.collect(), findings.dropped())
}

/// Returns the exception for an error: `_errors.made` chooses its class.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    let kind = error.kind().name();
    let (place, hint) = (error.place().map(str::to_owned), error.next_step().map(str::to_owned));
    let (message, findings) = (error.message().to_owned(), listed(error.findings()));
    let host = host_kind(error);
    exception(py, |errors| {
        errors.call_method1("made", (kind, host, message, place, hint, findings))
    })
}

/// Returns the exception for an open that fails: what is not recognised is an unsupported format.
pub(crate) fn unopened(error: Error) -> Error {
    let is_host = error.is_missing() || error.kind() != ErrorKind::Refused;
    if is_host { error } else { error.with_kind(ErrorKind::Unsupported) }
}

/// Returns the exception for a panic.
pub(crate) fn internal(py: Python<'_>, payload: &(dyn Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "a panic without a message".to_owned());
    exception(py, |errors| errors.getattr("InternalError")?.call1((message,)))
}

fn exception<'py>(
    py: Python<'py>,
    make: impl FnOnce(&Bound<'py, PyModule>) -> PyResult<Bound<'py, PyAny>>,
) -> PyErr {
    let module = PyString::new(py, "eraseblock._errors");
    match py.import(module).and_then(|errors| make(&errors)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Returns the name of what the host would say, where it decides the class of the exception.
fn host_kind(error: Error) -> Option<&'static str> {
    match io::Error::from(error).kind() {
        io::ErrorKind::NotFound => Some("not-found"),
        io::ErrorKind::AlreadyExists => Some("exists"),
        io::ErrorKind::NotADirectory => Some("not-a-directory"),
        io::ErrorKind::IsADirectory => Some("is-a-directory"),
        io::ErrorKind::PermissionDenied => Some("permission-denied"),
        _ => None,
    }
}
