//! Images and their volumes.

use crate::error::{Error, text};
use crate::finding::{FindingCallback, show};
use crate::fs::FileSystem;
use crate::guard::{self, counted, guarded, is_size, null, object, one_less, one_more};
use crate::options::{Options, kind_name, options};
use crate::source::{Foreign, Io};
use eraseblock::VolumeKind;
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// An opened image. It is only read.
#[derive(Debug)]
pub struct Image {
    image: eraseblock::Image,
    kind: CString,
}

impl Image {
    fn counted(image: eraseblock::Image) -> *mut Self {
        let kind = text(kind_name(image.kind()));
        counted(Self { image, kind })
    }
}

/// A volume of a UBI image. Lives during the callback only.
#[repr(C)]
#[derive(Debug)]
pub struct Volume {
    /// Its name.
    pub name: *const c_char,
    /// Its number.
    pub id: u32,
    /// Not 0: a static volume.
    pub is_static: c_int,
    /// Bytes of content that it can hold; of a static one, that it holds.
    pub size: u64,
}

/// Called for each volume, in the order of their numbers. Another result than 0 ends the list.
pub type VolumeCallback =
    Option<unsafe extern "C" fn(data: *mut c_void, volume: *const Volume) -> c_int>;

/// The path of an argument.
///
/// # Safety
///
/// As [`guard::text`].
pub(crate) unsafe fn path<'a>(path: *const c_char, what: &str) -> eraseblock::Result<&'a Path> {
    // SAFETY: the caller vouches for it.
    let path = unsafe { guard::text(path, what) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Opens the image at a path: a file, or a part of one with the options offset and length. Returns an
/// object to be released with eb_image_unref, or NULL.
///
/// # Safety
///
/// `path` is a string, `options` NULL or filled, `err` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_open(
    path: *const c_char,
    options: *const Options,
    err: *mut *mut Error,
) -> *mut Image {
    let work = || {
        // SAFETY: the caller vouches for both.
        let (options, path) = unsafe { (self::options(options)?, self::path(path, "path")?) };
        options.open(path).map(Image::counted)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, ptr::null_mut(), work) }
}

/// Opens an image in memory, which is copied.
///
/// # Safety
///
/// `bytes` points to `length` bytes; the rest as for eb_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_open_bytes(
    bytes: *const c_void,
    length: usize,
    options: *const Options,
    err: *mut *mut Error,
) -> *mut Image {
    let work = || {
        if bytes.is_null() {
            return Err(null("bytes"));
        }
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        // SAFETY: the caller vouches for it.
        unsafe { self::options(options) }?.from_bytes(bytes).map(Image::counted)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, ptr::null_mut(), work) }
}

/// Opens an image that the functions of io read. io itself is copied. Its close is called when nothing
/// uses the image any more, also if this function fails, unless io or its struct_size is wrong.
///
/// # Safety
///
/// The functions of `io` can be called by any thread with its data until close is called; the rest as
/// for eb_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_open_io(
    io: *const Io,
    options: *const Options,
    err: *mut *mut Error,
) -> *mut Image {
    let work = || {
        // SAFETY: the caller vouches for it.
        let io = *unsafe { object(io, "io") }?;
        is_size(io.struct_size, size_of::<Io>(), "eb_io")?;
        let reader = Arc::new(Foreign(io));
        if io.pread.is_none() {
            return Err(null("pread"));
        }
        // SAFETY: the caller vouches for it.
        unsafe { self::options(options) }?.from_reader(reader).map(Image::counted)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, ptr::null_mut(), work) }
}

/// Counts one more user of an image, and returns it.
///
/// # Safety
///
/// `image` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_ref(image: *mut Image) -> *mut Image {
    // SAFETY: the caller vouches for it.
    unsafe { one_more(image) }
}

/// Counts one user less, and closes the image after the last. File systems and files that were opened
/// from it stay valid.
///
/// # Safety
///
/// `image` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_unref(image: *mut Image) {
    // SAFETY: the caller vouches for it.
    unsafe { one_less(image) };
}

/// The format: "ubi", "ubifs", "jffs2", "yaffs", "axfs", "logfs" or "squashfs". Lives as long as the
/// image; NULL for NULL.
///
/// # Safety
///
/// `image` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_format(image: *const Image) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { image.as_ref() }.map_or(ptr::null(), |image| image.kind.as_ptr())
}

/// Shows what was found when the image was opened. Returns 0, or -1 on failure.
///
/// # Safety
///
/// `image` is alive, `callback` can be called with `data`, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_findings(
    image: *const Image,
    callback: FindingCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for both.
        unsafe { show(object(image, "image")?.image.findings(), callback, data) };
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Shows the volumes; there are none unless the image is a UBI. Returns 0, what the callback returned to
/// end the list, or -1 on failure.
///
/// # Safety
///
/// As for eb_image_findings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_volumes(
    image: *const Image,
    callback: VolumeCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        let callback = callback.ok_or_else(|| null("callback"))?;
        // SAFETY: the caller vouches for it.
        for volume in unsafe { object(image, "image") }?.image.volumes() {
            let name = text(volume.name_bytes());
            let is_static = c_int::from(volume.kind() == VolumeKind::Static);
            let (id, size) = (volume.id(), volume.size());
            let shown = Volume { name: name.as_ptr(), id, is_static, size };
            // SAFETY: the caller vouches for it; the name outlives the call.
            match unsafe { callback(data, &raw const shown) } {
                0 => {}
                end => return Ok(end),
            }
        }
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Opens the file system of a volume, by its name or its number in decimal, or with NULL the only file
/// system of the image. Returns an object to be released with eb_fs_unref, or NULL.
///
/// # Safety
///
/// `image` is alive, `volume` NULL or a string, `err` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_image_fs(
    image: *const Image,
    volume: *const c_char,
    err: *mut *mut Error,
) -> *mut FileSystem {
    let work = || {
        // SAFETY: the caller vouches for it.
        let image = &unsafe { object(image, "image") }?.image;
        let fs = if volume.is_null() {
            image.file_system()?
        } else {
            // SAFETY: the caller vouches for it.
            let volume = unsafe { guard::text(volume, "volume") }?;
            image.volume(volume.to_bytes())?.file_system()?
        };
        Ok(counted(FileSystem(fs)))
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, ptr::null_mut(), work) }
}
