//! Errors as objects.

use eraseblock::ErrorKind;
use eraseblock::error::Setting;
use std::any::Any;
use std::ffi::{CString, c_char, c_int};

/// Codes of errors. Later versions may add some.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)] // their names in C
pub enum Code {
    /// Anything else.
    EB_OTHER = 1,
    /// An argument is missing, or arguments contradict each other or the image.
    EB_USAGE = 2,
    /// What was asked for is impossible: no such file, a name in use and the like.
    EB_REFUSED = 3,
    /// Bytes that are not what the format demands.
    EB_CORRUPTION = 4,
    /// The flash or the callback of an eb_io failed to read.
    EB_MEDIA = 5,
    /// The image or the flash is full.
    EB_FLASH_FULL = 6,
    /// A valid format that is not supported.
    EB_UNSUPPORTED = 7,
    /// A disk of this machine is full.
    EB_HOST_FULL = 8,
    /// This machine refused an operation on a file.
    EB_HOST = 9,
    /// A mistake in the library. The objects of the call can still be freed.
    EB_INTERNAL = 10,
}

/// Why a function failed. Owned by the caller, who frees it with eb_error_free.
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: CString,
    hint: Option<CString>,
}

impl Error {
    pub(crate) fn of(error: eraseblock::Error) -> Self {
        let error = error.spelled(spell);
        let code = match error.kind() {
            ErrorKind::Usage => Code::EB_USAGE,
            ErrorKind::Refused => Code::EB_REFUSED,
            ErrorKind::Corruption => Code::EB_CORRUPTION,
            ErrorKind::Media => Code::EB_MEDIA,
            ErrorKind::FlashFull => Code::EB_FLASH_FULL,
            ErrorKind::Unsupported => Code::EB_UNSUPPORTED,
            ErrorKind::HostFull => Code::EB_HOST_FULL,
            ErrorKind::Host => Code::EB_HOST,
            _ => Code::EB_OTHER,
        };
        let hint = error.next_step().map(text);
        Self { code, message: text(error.to_string()), hint }
    }

    pub(crate) fn internal(payload: &(dyn Any + Send)) -> Self {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
        let message = format!("internal error: {}", words.unwrap_or("a panic without words"));
        Self { code: Code::EB_INTERNAL, message: text(message), hint: None }
    }
}

/// How messages name what the library calls settings.
fn spell(setting: Setting, value: Option<&str>) -> String {
    let name = match setting {
        Setting::Format | Setting::Leb | Setting::Page | Setting::Peb | Setting::VidOffset => {
            format!("eb_options.{setting}")
        }
        Setting::Force | Setting::KeepDamaged => format!("eb_extract_options.{setting}"),
        Setting::Extract => "eb_extract".to_owned(),
        other => other.to_string(),
    };
    value.map_or_else(|| name.clone(), |value| format!("{name} = {value}"))
}

/// Text for C; zero bytes become question marks.
pub(crate) fn text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes = text.into();
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
    CString::new(bytes).unwrap_or_default()
}

/// The message: one line, UTF-8; it names place, found and expected. Lives as long as the error.
///
/// # Safety
///
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_error_message(error: *const Error) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { error.as_ref() }.map_or(c"no error".as_ptr(), |error| error.message.as_ptr())
}

/// The next step, or NULL where none is known. Lives as long as the error.
///
/// # Safety
///
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_error_hint(error: *const Error) -> *const c_char {
    // SAFETY: the caller vouches for it.
    let error = unsafe { error.as_ref() };
    error.and_then(|error| error.hint.as_ref()).map_or(std::ptr::null(), |hint| hint.as_ptr())
}

/// The code, one of eb_code; 0 for NULL.
///
/// # Safety
///
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_error_code(error: *const Error) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { error.as_ref() }.map_or(0, |error| error.code as c_int)
}

/// Frees an error. NULL is allowed.
///
/// # Safety
///
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_error_free(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: `guarded` made it, and the caller vouches that nothing has freed it.
        drop(unsafe { Box::from_raw(error) });
    }
}
