//! Checks and builds images.

use crate::error::Error;
use crate::finding::{FindingCallback, show};
use crate::guard::guarded;
use crate::image::path as host_path;
use crate::options::{Options, options};
use std::ffi::{c_char, c_int, c_void};

/// The version of the library, such as "0.1.0". Lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn eb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Verifies every structure and every byte of an image. `findings` may be NULL. Returns 0 if it is
/// consistent, 1 if not, or -1 if it cannot be checked.
///
/// # Safety
///
/// `path` is a string, `options` NULL or filled, `findings` can be called with `data`, `err` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_check(
    path: *const c_char,
    options: *const Options,
    findings: FindingCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for both.
        let (options, path) = unsafe { (self::options(options)?, host_path(path, "path")?) };
        let report = options.check(path)?;
        // SAFETY: the caller vouches for it.
        unsafe { show(report.findings(), findings, data) };
        Ok(c_int::from(!report.is_consistent()))
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Builds the image that a layout file describes. A file at `image` is replaced once the new one is
/// complete. Returns 0, or -1 on failure.
///
/// # Safety
///
/// `layout` and `image` are strings, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_build(
    layout: *const c_char,
    image: *const c_char,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for both.
        let (layout, image) = unsafe { (host_path(layout, "layout")?, host_path(image, "image")?) };
        eraseblock::build(layout)?.write_to(image)?;
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}
