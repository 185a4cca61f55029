//! The ioctls themselves.

use crate::abi::{
    FILE_MODE_RAW, MEM_READ, MEM_READ_OOB64, MEM_WRITE, MEM_WRITE_OOB64, MODE_PLACE, MTD_FILE_MODE,
    OobRequest, ReadRequest, Request, WriteRequest,
};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::fs::File;

/// One ioctl with a pointer to a structure; returns the result of the driver.
struct Call<'a, T> {
    opcode: Opcode,
    argument: &'a mut T,
}

#[expect(unsafe_code, reason = "the interface of rustix for ioctls")]
// SAFETY: the pointer is valid for reading and writing a T; the creator of a `Call` guarantees the
// opcode (see `pointed`).
unsafe impl<T> Ioctl for Call<'_, T> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.argument).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> Result<i32> {
        Ok(output)
    }
}

/// One ioctl with a number as argument.
struct ByValue(Opcode, usize);

#[expect(unsafe_code, reason = "the interface of rustix for ioctls")]
// SAFETY: the argument is a number and is never used as a pointer.
unsafe impl Ioctl for ByValue {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.0
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.1)
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// Performs an ioctl of [`crate::abi`]; returns the result of the driver.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn call<R: Request>(file: &File, argument: &mut R::Argument) -> Result<i32> {
    // SAFETY: by the contract of `Request` the driver accesses only the argument.
    unsafe { ioctl(file, Call { opcode: R::OPCODE, argument }) }
}

/// Turns off ECC for this descriptor.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn set_raw(file: &File) -> Result<()> {
    // SAFETY: MTDFILEMODE takes a number.
    unsafe { ioctl(file, ByValue(MTD_FILE_MODE, FILE_MODE_RAW)) }
}

fn address<T>(bytes: *const T) -> u64 {
    bytes.expose_provenance() as u64
}

fn length32(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| Errno::INVAL)
}

/// Reads out-of-band bytes; the low bits of `start` are the offset in them.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn read_oob(file: &File, start: u64, buf: &mut [u8]) -> Result<()> {
    let (length, pointer) = (length32(buf.len())?, address(buf.as_mut_ptr()));
    let mut request = OobRequest { start, padding: 0, length, pointer };
    // SAFETY: the driver writes at most `length` bytes to `pointer`, which is `buf`, borrowed for
    // writing until the call is over.
    unsafe { ioctl(file, Call { opcode: MEM_READ_OOB64, argument: &mut request }) }.map(drop)
}

/// Programs out-of-band bytes; the low bits of `start` are the offset in them.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn write_oob(file: &File, start: u64, data: &[u8]) -> Result<()> {
    let (length, pointer) = (length32(data.len())?, address(data.as_ptr()));
    let mut request = OobRequest { start, padding: 0, length, pointer };
    // SAFETY: the driver reads `length` bytes at `pointer`, which is `data`, borrowed until the
    // call is over.
    unsafe { ioctl(file, Call { opcode: MEM_WRITE_OOB64, argument: &mut request }) }.map(drop)
}

/// Programs data and out-of-band bytes of one page together.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn write_both(file: &File, start: u64, data: &[u8], oob: &[u8]) -> Result<()> {
    let mut request = WriteRequest {
        start,
        length: data.len() as u64,
        oob_length: oob.len() as u64,
        data: address(data.as_ptr()),
        oob: address(oob.as_ptr()),
        mode: MODE_PLACE,
        padding: [0; 7],
    };
    // SAFETY: the driver reads `length` bytes at `data` and `oob_length` at `oob`, which are the
    // two slices, borrowed until the call is over.
    unsafe { ioctl(file, Call { opcode: MEM_WRITE, argument: &mut request }) }.map(drop)
}

/// The report of MEMREAD about a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadReport {
    /// Bytes delivered.
    pub(crate) done: usize,
    /// Maximum number of bits corrected in one codeword.
    pub(crate) max_bitflips: u32,
    /// Uncorrectable codewords.
    pub(crate) uncorrectable: u32,
    /// The result of the call.
    pub(crate) result: Result<()>,
}

/// Reads data together with the ECC report.
#[expect(unsafe_code, reason = "a call into a driver")]
pub(crate) fn read_with_report(file: &File, start: u64, buf: &mut [u8]) -> ReadReport {
    let mut request = ReadRequest {
        start,
        length: buf.len() as u64,
        data: address(buf.as_mut_ptr()),
        mode: MODE_PLACE,
        ..ReadRequest::default()
    };
    // SAFETY: the driver writes at most `length` bytes to `data`, which is `buf`, borrowed for
    // writing until the call is over; there are no out-of-band bytes.
    let result = unsafe { ioctl(file, Call { opcode: MEM_READ, argument: &mut request }) };
    let done = usize::try_from(request.length).unwrap_or(0).min(buf.len());
    ReadReport {
        done,
        max_bitflips: request.max_bitflips,
        uncorrectable: request.uncorrectable,
        result: result.map(drop),
    }
}
