//! Findings for callbacks.

use crate::error::text;
use eraseblock::{Findings, Severity};
use std::ffi::{c_char, c_int, c_void};

/// Something that is wrong with an image, or worth a note. Lives during the callback only.
#[repr(C)]
#[derive(Debug)]
pub struct Finding {
    /// 0 a note: nothing is wrong. 1 a warning: everything could be delivered. 2 an error: something
    /// could not.
    pub severity: c_int,
    /// A stable identifier.
    pub code: *const c_char,
    /// Where it is.
    pub place: *const c_char,
    /// What was found and what was expected.
    pub message: *const c_char,
}

/// Called for each finding, in order. What it returns is ignored unless it is not 0: then no further
/// finding is shown.
pub type FindingCallback =
    Option<unsafe extern "C" fn(data: *mut c_void, finding: *const Finding) -> c_int>;

/// Shows findings to a callback, if there is one.
///
/// # Safety
///
/// `callback` can be called with `data`.
pub(crate) unsafe fn show(findings: &Findings, callback: FindingCallback, data: *mut c_void) {
    let Some(callback) = callback else { return };
    for finding in findings {
        let severity = match finding.severity {
            Severity::Note => 0,
            Severity::Warning => 1,
            Severity::Error => 2,
        };
        let code = text(finding.code.name());
        let (place, message) = (text(finding.at.to_string()), text(finding.message.clone()));
        let shown = Finding {
            severity,
            code: code.as_ptr(),
            place: place.as_ptr(),
            message: message.as_ptr(),
        };
        // SAFETY: the caller vouches for it; the strings outlive the call.
        if unsafe { callback(data, &raw const shown) } != 0 {
            return;
        }
    }
}
