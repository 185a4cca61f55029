//! What a caller can say about an image.

use crate::guard::{is_size, text};
use eraseblock::{Image, Kind, OpenOptions};
use std::ffi::{c_char, c_int};
use std::num::NonZeroUsize;

const KINDS: [Kind; 7] =
    [Kind::Ubi, Kind::Ubifs, Kind::Jffs2, Kind::Yaffs, Kind::Axfs, Kind::Logfs, Kind::Squashfs];

/// What is known about an image, instead of what is detected. Set all of it to zero, then struct_size;
/// 0 and NULL mean: detected.
#[repr(C)]
#[derive(Debug)]
pub struct Options {
    /// sizeof(eb_options).
    pub struct_size: usize,
    /// "ubi", "ubifs", "jffs2", "yaffs", "axfs", "logfs" or "squashfs".
    pub format: *const c_char,
    /// Where the image begins in the file, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// Size of an eraseblock in bytes.
    pub peb: u32,
    /// Size of a page in bytes.
    pub page: u32,
    /// Size of a sub-page in bytes.
    pub subpage: u32,
    /// Where the VID header lies in an eraseblock.
    pub vid_offset: u32,
    /// Size of a logical eraseblock of a bare UBIFS in bytes.
    pub leb: u32,
    /// Number of threads of this image alone; 0 means those that all images share. A forked process
    /// has no shared threads: it needs a number here.
    pub threads: u32,
    /// Not 0: refuse what Linux would refuse.
    pub strict: c_int,
}

/// A setter of a size.
type Set = fn(OpenOptions, u32) -> OpenOptions;

/// Turns what a caller filled into options.
///
/// # Safety
///
/// `options` is null, or points to as many bytes as its `struct_size` says; its strings end with a
/// zero byte.
pub(crate) unsafe fn options(options: *const Options) -> eraseblock::Result<OpenOptions> {
    let made = Image::options();
    // SAFETY: the caller vouches for it.
    let Some(given) = (unsafe { options.as_ref() }) else { return Ok(made) };
    is_size(given.struct_size, size_of::<Options>(), "eb_options")?;
    let mut made = made.strict(given.strict != 0);
    if !given.format.is_null() {
        // SAFETY: the caller vouches for it.
        made = made.format(kind(unsafe { text(given.format, "format") }?.to_bytes())?);
    }
    let sizes: [(u32, Set); 5] = [
        (given.peb, OpenOptions::peb),
        (given.page, OpenOptions::page),
        (given.subpage, OpenOptions::subpage),
        (given.vid_offset, OpenOptions::vid_offset),
        (given.leb, OpenOptions::leb),
    ];
    for (size, set) in sizes.into_iter().filter(|(size, _)| *size != 0) {
        made = set(made, size);
    }
    if given.offset != 0 {
        made = made.offset(given.offset);
    }
    if given.length != 0 {
        made = made.length(given.length);
    }
    if let Some(threads) = usize::try_from(given.threads).ok().and_then(NonZeroUsize::new) {
        made = made.threads(threads);
    }
    Ok(made)
}

fn kind(name: &[u8]) -> eraseblock::Result<Kind> {
    let found = KINDS.into_iter().find(|kind| kind_name(*kind).as_bytes() == name);
    found.ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        let names = KINDS.map(kind_name).join(", ");
        eraseblock::Error::usage(format!("format: found `{name}`, expected one of {names}"))
    })
}

/// What a format is called in C.
pub(crate) fn kind_name(kind: Kind) -> String {
    kind.name().to_lowercase()
}
