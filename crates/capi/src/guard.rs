//! What every function does: turn arguments into Rust, and failures and panics into errors.

use crate::error::Error;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs `work`; on failure returns `failed`, and leaves the error in `err` unless that is null.
///
/// # Safety
///
/// `err` is null, or points to a pointer that may be written to.
pub(crate) unsafe fn guarded<T>(
    err: *mut *mut Error,
    failed: T,
    work: impl FnOnce() -> eraseblock::Result<T>,
) -> T {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => Error::of(error),
        Err(payload) => Error::internal(payload.as_ref()),
    };
    if !err.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { *err = Box::into_raw(Box::new(error)) };
    }
    failed
}

/// Returns the text at `text`, which `what` names in the error for a null pointer.
///
/// # Safety
///
/// `text` is null or ends with a zero byte, and stays as it is as long as the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> eraseblock::Result<&'a CStr> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Returns the object at `pointer`, which `what` names in the error for a null pointer.
///
/// # Safety
///
/// `pointer` is null, or an object that stays alive as long as the result is used.
pub(crate) unsafe fn object<'a, T>(pointer: *const T, what: &str) -> eraseblock::Result<&'a T> {
    // SAFETY: the caller vouches for it.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Makes a counted object for C.
pub(crate) fn counted<T>(object: T) -> *mut T {
    Arc::into_raw(Arc::new(object)).cast_mut()
}

/// Counts one more user of an object, and returns it.
///
/// # Safety
///
/// `object` is null, or was made by [`counted`] and is alive.
pub(crate) unsafe fn one_more<T>(object: *mut T) -> *mut T {
    if !object.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { Arc::increment_strong_count(object) };
    }
    object
}

/// Counts one user less, and frees the object if it was the last.
///
/// # Safety
///
/// `object` is null, or was made by [`counted`] and is alive.
pub(crate) unsafe fn one_less<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the caller vouches for it. Dropping files and memory does not unwind.
        unsafe { Arc::decrement_strong_count(object) };
    }
}

/// The size with which the callers of the first version fill a structure, or more.
pub(crate) fn is_size(found: usize, first: usize, what: &str) -> eraseblock::Result<()> {
    if found < first {
        let message = format!("{what}: struct_size is {found}, expected at least {first}");
        return Err(eraseblock::Error::usage(message).hint("set struct_size to its sizeof"));
    }
    Ok(())
}

/// The error for a null pointer.
pub(crate) fn null(what: &str) -> eraseblock::Error {
    eraseblock::Error::usage(format!("{what}: found NULL"))
}
