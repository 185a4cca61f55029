//! Keys and name hashes (spec: ubifs-format 5).

use core::fmt;

/// The kind of a key; the number is the one in bits 31-29 of its second word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum KeyKind {
    /// An inode.
    Inode = 0,
    /// A block of file content.
    Data = 1,
    /// A directory entry.
    Dent = 2,
    /// An xattr entry.
    Xent = 3,
}

impl KeyKind {
    /// Returns whether equal keys may occur and are distinguished by name.
    pub const fn is_hashed(self) -> bool {
        matches!(self, Self::Dent | Self::Xent)
    }
}

/// The value bits of a key's second word: hash or block number.
pub const VALUE_MASK: u32 = 0x1FFF_FFFF;

/// A simple key, 64 bits, ordered as in the index.
///
/// Every bit pattern is a key on flash; [`Key::kind`] says whether its type exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    ino: u32,
    word: u32,
}

impl Key {
    /// The smallest key.
    pub const MIN: Self = Self { ino: 0, word: 0 };

    const fn new(ino: u32, kind: KeyKind, value: u32) -> Self {
        Self { ino, word: ((kind as u32) << 29) | (value & VALUE_MASK) }
    }

    /// Returns the key of an inode.
    pub const fn inode(ino: u32) -> Self {
        Self::new(ino, KeyKind::Inode, 0)
    }

    /// Returns the key of block `block` (below 2^29) of an inode's content.
    pub const fn data(ino: u32, block: u32) -> Self {
        Self::new(ino, KeyKind::Data, block)
    }

    /// Returns the key of an entry with this name hash in directory `dir`.
    pub const fn dent(dir: u32, hash: u32) -> Self {
        Self::new(dir, KeyKind::Dent, hash)
    }

    /// Returns the key of an xattr of inode `host` with this name hash.
    pub const fn xent(host: u32, hash: u32) -> Self {
        Self::new(host, KeyKind::Xent, hash)
    }

    /// Returns the first possible key of inode `ino`.
    pub const fn first_of(ino: u32) -> Self {
        Self { ino, word: 0 }
    }

    /// Returns the last possible key of inode `ino`.
    pub const fn last_of(ino: u32) -> Self {
        Self { ino, word: u32::MAX }
    }

    /// Reads the first 8 bytes of a key on flash.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { ino: (both & 0xFFFF_FFFF) as u32, word: (both >> 32) as u32 }
    }

    /// Returns the 8 bytes on flash.
    pub fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.word) << 32 | u64::from(self.ino)).to_le_bytes()
    }

    /// Returns the inode (for entries: the directory or host) the key belongs to.
    pub const fn ino(self) -> u32 {
        self.ino
    }

    /// Returns the kind of the key, or `None` for a type that does not exist.
    pub const fn kind(self) -> Option<KeyKind> {
        match self.word >> 29 {
            0 => Some(KeyKind::Inode),
            1 => Some(KeyKind::Data),
            2 => Some(KeyKind::Dent),
            3 => Some(KeyKind::Xent),
            _ => None,
        }
    }

    /// Returns the block number or name hash.
    pub const fn value(self) -> u32 {
        self.word & VALUE_MASK
    }

    /// Returns whether equal keys may occur and are distinguished by name.
    pub fn is_hashed(self) -> bool {
        self.kind().is_some_and(KeyKind::is_hashed)
    }

    /// Returns the key before this one in order, or `None` before the first.
    pub fn predecessor(self) -> Option<Self> {
        match self.word.checked_sub(1) {
            Some(word) => Some(Self { word, ..self }),
            None => self.ino.checked_sub(1).map(Self::last_of),
        }
    }

    /// Returns the next key in order, or `None` after the last.
    pub fn successor(self) -> Option<Self> {
        match self.word.checked_add(1) {
            Some(word) => Some(Self { word, ..self }),
            None => self.ino.checked_add(1).map(Self::first_of),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind() {
            Some(KeyKind::Inode) => return write!(f, "inode {}", self.ino),
            Some(KeyKind::Data) => "block",
            Some(KeyKind::Dent) => "entry",
            Some(KeyKind::Xent) => "xattr",
            None => "unknown",
        };
        write!(f, "inode {} {kind} {:#x}", self.ino, self.value())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:08X}", self.ino, self.word)
    }
}

/// The hash function of names; the number is the superblock's `key_hash`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum KeyHash {
    /// The hash of all ordinary images.
    #[default]
    R5 = 0,
    /// The first four bytes, for tests of collisions.
    Test = 1,
}

impl KeyHash {
    /// Returns the function with this number on flash.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::R5),
            1 => Some(Self::Test),
            _ => None,
        }
    }

    /// Returns the 29-bit hash of a name as stored, never 0, 1 or 2.
    pub fn hash(self, name: &[u8]) -> u32 {
        let full = match self {
            Self::R5 => name.iter().fold(0_u32, |hash, byte| {
                let byte = i32::from(byte.cast_signed());
                hash.wrapping_add((byte << 4).cast_unsigned())
                    .wrapping_add((byte >> 4).cast_unsigned())
                    .wrapping_mul(11)
            }),
            Self::Test => {
                let mut word = [0; 4];
                word.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
                u32::from_le_bytes(word)
            }
        };
        match full & VALUE_MASK {
            reserved @ 0..=2 => reserved + 3,
            hash => hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_bytes_of_the_specification() {
        let cases = [
            (Key::inode(65), [0x41, 0, 0, 0, 0, 0, 0, 0]),
            (Key::data(65, 2), [0x41, 0, 0, 0, 2, 0, 0, 0x20]),
            (Key::dent(1, 0x15D1_BF38), [1, 0, 0, 0, 0x38, 0xBF, 0xD1, 0x55]),
            (Key::xent(65, 0x0AEB_B094), [0x41, 0, 0, 0, 0x94, 0xB0, 0xEB, 0x6A]),
        ];
        for (key, bytes) in cases {
            assert_eq!(key.to_bytes(), bytes);
            assert_eq!(Key::from_bytes(bytes), key);
        }
    }

    #[test]
    fn names_hash_as_in_the_specification() {
        let cases: [(&[u8], u32, u32); 10] = [
            (b"", 3, 3),
            (b"a", 0x42F2, 0x61),
            (b"dir", 0x0024_0985, 0x0072_6964),
            (b"a.txt", 0x0FC3_4695, 0x1874_2E61),
            (b"hello", 0x1199_0232, 0x0C6C_6568),
            (b"user.test", 0x0847_9BD0, 0x1265_7375),
            (b"\xC3\xA9", 0x1FFD_F4BA, 0xA9C3),
            ("\u{65e5}\u{672c}\u{8a9e}".as_bytes(), 0x12F8_C453, 0x06A5_97E6),
            (b"\xFF", 0x1FFF_FF45, 0xFF),
            (&[b'x'; 255], 0x04BB_CA79, 0x1878_7878),
        ];
        for (name, r5, test) in cases {
            assert_eq!(KeyHash::R5.hash(name), r5, "{name:?}");
            assert_eq!(KeyHash::Test.hash(name), test, "{name:?}");
        }
    }

    #[test]
    fn keys_of_an_inode_come_in_the_order_of_the_index() {
        let order = [
            Key::first_of(65),
            Key::data(65, 0),
            Key::data(65, 9),
            Key::dent(65, 3),
            Key::xent(65, 3),
            Key::last_of(65),
            Key::inode(66),
        ];
        assert!(order.is_sorted());
        assert_eq!(Key::last_of(65).successor(), Some(Key::inode(66)));
        assert_eq!(Key::last_of(u32::MAX).successor(), None);
        assert_eq!(Key::inode(66).predecessor(), Some(Key::last_of(65)));
        assert_eq!(Key::MIN.predecessor(), None);
    }
}
