//! An NBD server for a disk that this process simulates: fixed newstyle handshake, simple replies,
//! a Unix socket, a thread for each connection.
//!
//! Requests of a connection are carried out one at a time, in the order of their arrival: a request
//! that waits in the socket waits for the disk, as with a device without a queue.
//!
//! # Invariants
//! 1. Bytes of a client never cause a panic, and allocate at most [`MAX_REQUEST`] bytes.
//! 2. A reply to a write follows the write.
//! 3. A client that breaks the protocol loses its connection; the server and its other clients go
//!    on.

mod handshake;
mod server;
mod transmission;
mod wire;

pub use server::{Server, Stopper};

use std::io::{self, Read, Write};

/// The largest request in bytes; also the largest that the server offers.
pub const MAX_REQUEST: u32 = 32 << 20;

/// A disk. Offsets and lengths are inside it and whole sectors of 512 bytes.
pub trait Disk: Sync {
    /// Returns its size in bytes, a multiple of 512.
    fn size(&self) -> u64;

    /// Fills `buf`.
    ///
    /// # Errors
    ///
    /// Fails if the disk does; the client gets an I/O error.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes `data`; with `fua` it must be durable on return.
    ///
    /// # Errors
    ///
    /// Fails if the disk does; the client gets an I/O error.
    fn write(&self, offset: u64, data: &[u8], fua: bool) -> io::Result<()>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    ///
    /// Fails if the disk does; the client gets an I/O error.
    fn flush(&self) -> io::Result<()>;

    /// Hints that the range is no longer needed.
    ///
    /// # Errors
    ///
    /// Fails if the disk does; the client gets an I/O error.
    fn trim(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// Serves one connection until the client leaves.
///
/// # Errors
///
/// Fails if the connection does, or with [`io::ErrorKind::InvalidData`] if the client breaks the
/// protocol; the connection must then be closed.
pub fn serve(input: &mut impl Read, output: &mut impl Write, disk: &dyn Disk) -> io::Result<()> {
    match handshake::negotiate(input, output, disk.size())? {
        handshake::Outcome::Leaves => Ok(()),
        handshake::Outcome::Transmits => transmission::run(input, output, disk),
    }
}
