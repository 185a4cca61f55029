//! Numbers on the wire: big-endian, and the constants of the protocol.

use std::io::{self, Read};

pub(crate) const INIT_MAGIC: u64 = 0x4E42_444D_4147_4943;
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of the handshake, the same numbers on both sides.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

/// Properties of the export: flags are valid, and it accepts flush, FUA and trim.
pub(crate) const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5;

/// Sizes that a request must be a multiple of.
pub(crate) const SECTOR: u32 = 512;

/// Error numbers of replies.
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EOVERFLOW: u32 = 75;

pub(crate) fn get_u16(input: &mut impl Read) -> io::Result<u16> {
    Ok(u16::from_be_bytes(array(input)?))
}

pub(crate) fn get_u32(input: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_be_bytes(array(input)?))
}

pub(crate) fn get_u64(input: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_be_bytes(array(input)?))
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The client broke the protocol.
pub(crate) fn broken(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
