//! The flags of chattr(1), accessed through the ioctls of lsattr and chattr (spec: ubifs-runtime
//! 9).

use eraseblock_vfs::attr::InodeFlags;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, and their 32-bit forms.
const GET: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET: [u32; 2] = [0x4008_6602, 0x4004_6602];

/// `FS_IOC_FSGETXATTR`: the kernel reads the flags in this form before it sets them.
const GET_EXTENDED: u32 = 0x801C_581F;

const SYNC: u32 = 0x8;
const COMPRESS: u32 = 0x4;
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;
const ENCRYPT: u32 = 0x800;
const DIRSYNC: u32 = 0x1_0000;

/// A supported ioctl.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Get the flags.
    Get,
    /// Get them in the form of `struct fsxattr`.
    GetExtended,
    /// Set these bits.
    Set(u32),
}

/// Decodes an ioctl; returns `None` for any other.
pub(crate) fn request(command: u32, data: &[u8]) -> Option<Request> {
    if GET.contains(&command) {
        return Some(Request::Get);
    }
    if command == GET_EXTENDED {
        return Some(Request::GetExtended);
    }
    if !SET.contains(&command) {
        return None;
    }
    let bits = data.first_chunk::<4>()?;
    Some(Request::Set(u32::from_ne_bytes(*bits)))
}

/// Returns the bits of flags.
pub(crate) fn bits(flags: InodeFlags) -> u32 {
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    bit(flags.compress, COMPRESS)
        | bit(flags.sync, SYNC)
        | bit(flags.immutable, IMMUTABLE)
        | bit(flags.append, APPEND)
        | bit(flags.encrypted, ENCRYPT)
        | bit(flags.dirsync, DIRSYNC)
}

/// Returns the flags as a `struct fsxattr` of 28 bytes; only the first four are used.
pub(crate) fn extended(flags: InodeFlags) -> [u8; 28] {
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    let bits = bit(flags.immutable, 0x8) | bit(flags.append, 0x10) | bit(flags.sync, 0x20);
    let mut answer = [0; 28];
    answer[..4].copy_from_slice(&bits.to_ne_bytes());
    answer
}

/// Converts bits to flags; returns `None` if the file systems here do not support one of them.
pub(crate) fn flags(bits: u32) -> Option<InodeFlags> {
    let known = COMPRESS | SYNC | IMMUTABLE | APPEND | ENCRYPT | DIRSYNC;
    let has = |bit: u32| bits & bit != 0;
    (bits & !known == 0).then(|| InodeFlags {
        compress: has(COMPRESS),
        sync: has(SYNC),
        immutable: has(IMMUTABLE),
        append: has(APPEND),
        encrypted: has(ENCRYPT),
        dirsync: has(DIRSYNC),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_both_ways() {
        for bits_in in [0, COMPRESS, SYNC | IMMUTABLE, APPEND | DIRSYNC, ENCRYPT] {
            assert_eq!(flags(bits_in).map(bits), Some(bits_in));
        }
        assert_eq!(flags(0x40), None);
    }

    #[test]
    fn only_three_requests_are_known() {
        assert_eq!(request(GET_EXTENDED, &[]), Some(Request::GetExtended));
        let flags = InodeFlags { append: true, compress: true, ..InodeFlags::default() };
        assert_eq!(extended(flags)[..4], 0x10_u32.to_ne_bytes());
        assert_eq!(request(0x8008_6601, &[]), Some(Request::Get));
        assert_eq!(request(0x4008_6602, &4_u32.to_ne_bytes()), Some(Request::Set(4)));
        assert_eq!(request(0x4008_6602, &[1]), None);
        assert_eq!(request(0x8008_7601, &[]), None);
    }
}
