//! Images that a program reads for us, and images in memory.

use eraseblock::ReadAt;
use std::ffi::{c_int, c_void};
use std::io;

/// An image that the caller reads: a file in an archive, a download, a flash read by a debugger.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// sizeof(eb_io).
    pub struct_size: usize,
    /// Passed to the functions.
    pub data: *mut c_void,
    /// Fills buffer with the length bytes at offset, all of which lie within size; returns 0, or an
    /// errno. Called by several threads at once.
    pub pread: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            buffer: *mut c_void,
            length: usize,
            offset: u64,
        ) -> c_int,
    >,
    /// Length of the image in bytes.
    pub size: u64,
    /// Called once, when nothing uses the image any more; may be NULL.
    pub close: Option<unsafe extern "C" fn(data: *mut c_void)>,
}

/// The reader of an [`Io`].
#[derive(Debug)]
pub(crate) struct Foreign(pub(crate) Io);

// SAFETY: the caller of `eb_open_io` vouches that all threads may call its functions with its data.
unsafe impl Send for Foreign {}
// SAFETY: as for `Send`.
unsafe impl Sync for Foreign {}

impl ReadAt for Foreign {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.0.size);
        let (Some(pread), Some(_)) = (self.0.pread, end) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        // SAFETY: the caller of `eb_open_io` vouches for the function; the buffer has that length.
        match unsafe { pread(self.0.data, buf.as_mut_ptr().cast(), buf.len(), offset) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(close) = self.0.close {
            // SAFETY: the caller of `eb_open_io` vouches for the function; it is called once.
            unsafe { close(self.0.data) };
        }
    }
}
