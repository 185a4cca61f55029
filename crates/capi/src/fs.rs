//! File systems and files.

use crate::error::{Error, text};
use crate::finding::{FindingCallback, show};
use crate::guard::{counted, guarded, is_size, null, object, one_less, one_more};
use crate::image::path as host_path;
use eraseblock::{ExtractOptions, ExtractReport, Owners, ReadAt};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File as HostFile;
use std::io::{BufWriter, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::ptr;

/// A file system, opened to be read. Paths in it are bytes, from its root, with or without a slash at the
/// start; symbolic links are followed inside the image.
#[derive(Debug)]
pub struct FileSystem(pub(crate) eraseblock::FileSystem);

/// A regular file, opened to be read.
#[derive(Debug)]
pub struct File(eraseblock::File);

/// Attributes of an inode.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// sizeof(eb_stat_t), set by the caller.
    pub struct_size: usize,
    /// Inode number.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Seconds of the last access since 1970.
    pub atime: i64,
    /// Seconds of the last change of content since 1970.
    pub mtime: i64,
    /// Seconds of the last change of the inode since 1970.
    pub ctime: i64,
    /// Nanoseconds of the last access.
    pub atime_nsec: u32,
    /// Nanoseconds of the last change of content.
    pub mtime_nsec: u32,
    /// Nanoseconds of the last change of the inode.
    pub ctime_nsec: u32,
    /// Type and permission bits, as in POSIX.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub rdev_major: u32,
    /// Device number of a device node.
    pub rdev_minor: u32,
}

/// An entry of a directory. Lives during the callback only.
#[repr(C)]
#[derive(Debug)]
pub struct DirEntry {
    /// Its name, with a zero byte at the end.
    pub name: *const c_char,
    /// Inode number.
    pub ino: u64,
    /// Type bits, as in the mode of POSIX.
    pub type_bits: u32,
}

/// Called for each entry. Another result than 0 ends the list.
pub type DirEntryCallback =
    Option<unsafe extern "C" fn(data: *mut c_void, entry: *const DirEntry) -> c_int>;

/// Called for each extended attribute. Another result than 0 ends the list.
pub type XattrCallback = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        name: *const c_char,
        value: *const c_void,
        length: usize,
    ) -> c_int,
>;

/// How to extract. Set all of it to zero, then struct_size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extraction {
    /// sizeof(eb_extract_options).
    pub struct_size: usize,
    /// Whether files get the owners in the image: 0 if the caller is root, 1 always, 2 never.
    pub owners: c_int,
    /// Not 0: leave out extended attributes.
    pub no_xattrs: c_int,
    /// Not 0: replace files, and accept a folder that is not empty.
    pub force: c_int,
    /// Not 0: write files with zeros in place of unreadable data.
    pub keep_damaged: c_int,
}

/// Bytes of a path in a file system.
///
/// # Safety
///
/// As [`crate::guard::text`].
unsafe fn inside<'a>(path: *const c_char) -> eraseblock::Result<&'a [u8]> {
    // SAFETY: the caller vouches for it.
    Ok(unsafe { crate::guard::text(path, "path") }?.to_bytes())
}

/// Counts one more user of a file system, and returns it.
///
/// # Safety
///
/// `fs` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_fs_ref(fs: *mut FileSystem) -> *mut FileSystem {
    // SAFETY: the caller vouches for it.
    unsafe { one_more(fs) }
}

/// Counts one user less, and closes the file system after the last.
///
/// # Safety
///
/// `fs` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_fs_unref(fs: *mut FileSystem) {
    // SAFETY: the caller vouches for it.
    unsafe { one_less(fs) };
}

/// Shows what was found when the file system was opened, and since then. Returns 0, or -1 on failure.
///
/// # Safety
///
/// `fs` is alive, `callback` can be called with `data`, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_fs_findings(
    fs: *const FileSystem,
    callback: FindingCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for it.
        let fs = &unsafe { object(fs, "fs") }?.0;
        let mut findings = fs.findings().clone();
        findings.append(fs.late_findings());
        // SAFETY: the caller vouches for it.
        unsafe { show(&findings, callback, data) };
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Fills `out`; a symbolic link at the end of the path is followed. Returns 0, or -1 on failure.
///
/// # Safety
///
/// `fs` is alive, `path` a string, `out` as long as its struct_size, `err` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_stat(
    fs: *const FileSystem,
    path: *const c_char,
    out: *mut Stat,
    err: *mut *mut Error,
) -> c_int {
    // SAFETY: the caller vouches for all of it.
    unsafe { fill(fs, path, out, err, |fs, path| fs.metadata(path)) }
}

/// As eb_stat, but of the symbolic link itself.
///
/// # Safety
///
/// As for eb_stat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_lstat(
    fs: *const FileSystem,
    path: *const c_char,
    out: *mut Stat,
    err: *mut *mut Error,
) -> c_int {
    // SAFETY: the caller vouches for all of it.
    unsafe { fill(fs, path, out, err, |fs, path| fs.symlink_metadata(path)) }
}

/// # Safety
///
/// As for [`eb_stat`].
unsafe fn fill(
    fs: *const FileSystem,
    path: *const c_char,
    out: *mut Stat,
    err: *mut *mut Error,
    of: fn(&eraseblock::FileSystem, &[u8]) -> eraseblock::Result<eraseblock::Metadata>,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for all of them.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        // SAFETY: the caller vouches for it.
        let struct_size = unsafe { object(out, "out") }?.struct_size;
        is_size(struct_size, size_of::<Stat>(), "eb_stat_t")?;
        let attr = of(&fs.0, path)?.attr().clone();
        let stat = Stat {
            struct_size,
            ino: attr.ino,
            size: attr.size,
            atime: attr.atime.seconds,
            mtime: attr.mtime.seconds,
            ctime: attr.ctime.seconds,
            atime_nsec: attr.atime.nanoseconds,
            mtime_nsec: attr.mtime.nanoseconds,
            ctime_nsec: attr.ctime.nanoseconds,
            mode: attr.mode(),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev_major: attr.rdev.0,
            rdev_minor: attr.rdev.1,
        };
        // SAFETY: it is at least that long, as its size says.
        unsafe { *out = stat };
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Shows the entries of a directory, sorted by name, without `.` and `..`. Returns 0, what the callback
/// returned to end the list, or -1 on failure.
///
/// # Safety
///
/// `fs` is alive, `path` a string, `callback` can be called with `data`, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_list(
    fs: *const FileSystem,
    path: *const c_char,
    callback: DirEntryCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        let callback = callback.ok_or_else(|| null("callback"))?;
        // SAFETY: the caller vouches for both.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        for entry in fs.0.read_dir(path)? {
            let (name, ino) = (text(entry.name_bytes()), entry.ino());
            let type_bits = entry.kind().mode_bits();
            let shown = DirEntry { name: name.as_ptr(), ino, type_bits };
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

/// Shows the extended attributes of a file. Returns 0, what the callback returned to end the list, or -1
/// on failure.
///
/// # Safety
///
/// As for eb_list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_xattrs(
    fs: *const FileSystem,
    path: *const c_char,
    callback: XattrCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        let callback = callback.ok_or_else(|| null("callback"))?;
        // SAFETY: the caller vouches for both.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        for (name, value) in fs.0.xattrs(path)? {
            let name = text(name);
            // SAFETY: the caller vouches for it; name and value outlive the call.
            let end = unsafe { callback(data, name.as_ptr(), value.as_ptr().cast(), value.len()) };
            if end != 0 {
                return Ok(end);
            }
        }
        Ok(0)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Copies the target of a symbolic link, without a zero byte, as far as it fits. Returns its length,
/// which may exceed `size`, or -1 on failure.
///
/// # Safety
///
/// `fs` is alive, `path` a string, `buffer` has `size` bytes, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_readlink(
    fs: *const FileSystem,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
    err: *mut *mut Error,
) -> i64 {
    let work = || {
        // SAFETY: the caller vouches for all of them.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        let target = fs.0.read_link(path)?;
        // SAFETY: the caller vouches for it.
        let buffer = unsafe { writable(buffer.cast(), size) }?;
        let fits = target.len().min(size);
        buffer[..fits].copy_from_slice(&target[..fits]);
        Ok(i64::try_from(target.len()).unwrap_or(i64::MAX))
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// The buffer of an argument; NULL is allowed for none.
///
/// # Safety
///
/// `buffer` has `size` bytes, which nothing else uses as long as the result is used.
unsafe fn writable<'a>(buffer: *mut u8, size: usize) -> eraseblock::Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() {
        return Err(null("buffer"));
    }
    // SAFETY: the caller vouches for it. Bytes of any value are valid.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer, size) })
}

/// Opens a regular file. Returns an object to be released with eb_file_unref, or NULL.
///
/// # Safety
///
/// `fs` is alive, `path` a string, `err` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_file_open(
    fs: *const FileSystem,
    path: *const c_char,
    err: *mut *mut Error,
) -> *mut File {
    let work = || {
        // SAFETY: the caller vouches for both.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        Ok(counted(File(fs.0.open(path)?)))
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, ptr::null_mut(), work) }
}

/// Counts one more user of a file, and returns it.
///
/// # Safety
///
/// `file` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_file_ref(file: *mut File) -> *mut File {
    // SAFETY: the caller vouches for it.
    unsafe { one_more(file) }
}

/// Counts one user less, and closes the file after the last.
///
/// # Safety
///
/// `file` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_file_unref(file: *mut File) {
    // SAFETY: the caller vouches for it.
    unsafe { one_less(file) };
}

/// The length of a file in bytes; 0 for NULL.
///
/// # Safety
///
/// `file` is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_file_size(file: *const File) -> u64 {
    // SAFETY: the caller vouches for it.
    unsafe { file.as_ref() }.map_or(0, |file| file.0.len())
}

/// Reads up to `length` bytes at `offset`. Returns how many were read, fewer only at the end of the file,
/// or -1 on failure: damaged data is an error, never delivered.
///
/// # Safety
///
/// `file` is alive, `buffer` has `length` bytes, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_file_read(
    file: *const File,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    err: *mut *mut Error,
) -> i64 {
    let work = || {
        // SAFETY: the caller vouches for both.
        let (file, buffer) = unsafe { (object(file, "file")?, writable(buffer.cast(), length)?) };
        part(&file.0, offset, buffer)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

fn part(file: &eraseblock::File, offset: u64, buffer: &mut [u8]) -> eraseblock::Result<i64> {
    let rest = file.len().saturating_sub(offset);
    let length = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
    file.read_exact_at(&mut buffer[..length], offset)?;
    Ok(i64::try_from(length).unwrap_or(i64::MAX))
}

/// Reads a part of the file at a path, as eb_file_read does.
///
/// # Safety
///
/// `fs` is alive, `path` a string, `buffer` has `length` bytes, `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_read(
    fs: *const FileSystem,
    path: *const c_char,
    offset: u64,
    buffer: *mut c_void,
    length: usize,
    err: *mut *mut Error,
) -> i64 {
    let work = || {
        // SAFETY: the caller vouches for all of them.
        let (fs, path) = unsafe { (object(fs, "fs")?, inside(path)?) };
        // SAFETY: the caller vouches for it.
        part(&fs.0.open(path)?, offset, unsafe { writable(buffer.cast(), length) }?)
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

/// Copies everything into a folder, which is made if it is missing. `findings` may be NULL. Returns 0, 1
/// if something was left out or damaged, or -1 on failure.
///
/// # Safety
///
/// `fs` is alive, `folder` a string, `options` NULL or filled, `findings` can be called with `data`,
/// `err` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_extract(
    fs: *const FileSystem,
    folder: *const c_char,
    options: *const Extraction,
    findings: FindingCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for all of them.
        let (fs, folder) = unsafe { (object(fs, "fs")?, host_path(folder, "folder")?) };
        // SAFETY: the caller vouches for it.
        let report = fs.0.extract_to(folder, &extraction(unsafe { options.as_ref() })?)?;
        // SAFETY: the caller vouches for it.
        Ok(unsafe { reported(&report, findings, data) })
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}

fn extraction(given: Option<&Extraction>) -> eraseblock::Result<ExtractOptions> {
    let options = ExtractOptions::default();
    let Some(given) = given else { return Ok(options) };
    is_size(given.struct_size, size_of::<Extraction>(), "eb_extract_options")?;
    let owners = match given.owners {
        0 => Owners::IfRoot,
        1 => Owners::Keep,
        2 => Owners::Skip,
        other => {
            let message = format!("owners: found {other}, expected 0, 1 or 2");
            return Err(eraseblock::Error::usage(message));
        }
    };
    let options = options.owners(owners).xattrs(given.no_xattrs == 0).force(given.force != 0);
    Ok(options.keep_damaged(given.keep_damaged != 0))
}

/// Shows the findings of a report, and returns 1 if not everything was delivered.
///
/// # Safety
///
/// As for [`show`].
unsafe fn reported(report: &ExtractReport, callback: FindingCallback, data: *mut c_void) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { show(&report.findings, callback, data) };
    c_int::from(report.left_out + report.damaged > 0)
}

/// Writes everything as a tar archive to a file descriptor, which stays open. Results as for eb_extract.
///
/// # Safety
///
/// `fs` is alive, `descriptor` open for writing, `findings` can be called with `data`, `err` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_to_tar(
    fs: *const FileSystem,
    descriptor: c_int,
    findings: FindingCallback,
    data: *mut c_void,
    err: *mut *mut Error,
) -> c_int {
    let work = || {
        // SAFETY: the caller vouches for it.
        let fs = unsafe { object(fs, "fs") }?;
        if descriptor < 0 {
            let message = format!("descriptor: found {descriptor}, expected an open file");
            return Err(eraseblock::Error::usage(message));
        }
        // SAFETY: the caller vouches for it; it is not closed here.
        let file = ManuallyDrop::new(unsafe { HostFile::from_raw_fd(descriptor) });
        let mut out = BufWriter::new(&*file);
        let report = fs.0.to_tar(&mut out)?;
        out.flush()?;
        // SAFETY: the caller vouches for it.
        Ok(unsafe { reported(&report, findings, data) })
    };
    // SAFETY: the caller vouches for `err`.
    unsafe { guarded(err, -1, work) }
}
