//! PAX extended headers: `LENGTH KEY=VALUE\n` records that override fields of the next header.

use super::acl;
use crate::error::TreeError;
use eraseblock_base::Location;
use eraseblock_vfs::Timestamp;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The largest extended header that is read, in bytes. Xattrs have at most 64 KiB each, sparse maps
/// one short record per hole.
pub(crate) const MAX_SIZE: u64 = 16 << 20;

/// Information from extended headers about the following members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) atime: Option<Timestamp>,
    pub(crate) ctime: Option<Timestamp>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) sparse: Sparse,
    /// ACLs as text, by the name of their xattr.
    pub(crate) acls: BTreeMap<&'static [u8], Vec<u8>>,
    /// Names of xattrs that a tree cannot store.
    pub(crate) left_out: Vec<Vec<u8>>,
}

/// The `GNU.sparse` records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse {
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) real_size: Option<u64>,
    /// Pairs of (offset, length); in version 0.0 a pair consists of two records.
    pub(crate) map: Vec<(u64, u64)>,
    pub(crate) has_map: bool,
    pub(crate) major: u64,
    pending_offset: Option<u64>,
}

impl Pax {
    /// Adds the records of one extended header that begins at `at`.
    pub(crate) fn read(&mut self, mut bytes: &[u8], at: Location) -> Result<(), TreeError> {
        while !bytes.is_empty() {
            // Some writers pad the records with NULs.
            if bytes.iter().all(|byte| *byte == 0) {
                break;
            }
            let (key, value, rest) = split_record(bytes).ok_or_else(|| TreeError::Field {
                at,
                field: "extended header record",
                found: format!("`{}`", bytes[..bytes.len().min(32)].escape_ascii()),
                expected: "LENGTH KEY=VALUE and a newline",
            })?;
            self.record(key, value, at)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Keeps only the records of a global header that can apply to all members.
    pub(crate) fn restrict_to_global(&mut self) {
        (self.path, self.link, self.size) = (None, None, None);
        self.sparse = Sparse::default();
        self.xattrs.clear();
        self.acls.clear();
        self.left_out.clear();
    }

    fn record(&mut self, key: &[u8], value: &[u8], at: Location) -> Result<(), TreeError> {
        let wrong = |field| TreeError::Field {
            at,
            field,
            found: format!("`{}`", value[..value.len().min(64)].escape_ascii()),
            expected: "a decimal number in range",
        };
        let small = |field| match value {
            b"" => Ok(None),
            value => decimal(value)
                .and_then(|number| u32::try_from(number).ok())
                .map(Some)
                .ok_or_else(|| wrong(field)),
        };
        let time = |field| match value {
            b"" => Ok(None),
            value => timestamp(value).map(Some).ok_or_else(|| wrong(field)),
        };
        let bytes = || (!value.is_empty()).then(|| value.to_vec());
        let count = |field| decimal(value).ok_or_else(|| wrong(field));
        match key {
            b"path" => self.path = bytes(),
            b"linkpath" => self.link = bytes(),
            b"size" if value.is_empty() => self.size = None,
            b"size" => self.size = Some(count("PAX size")?),
            b"uid" => self.uid = small("PAX uid")?,
            b"gid" => self.gid = small("PAX gid")?,
            b"mtime" => self.mtime = time("PAX mtime")?,
            b"atime" => self.atime = time("PAX atime")?,
            b"ctime" => self.ctime = time("PAX ctime")?,
            b"GNU.sparse.name" => self.sparse.name = bytes(),
            b"GNU.sparse.major" => self.sparse.major = count("GNU.sparse.major")?,
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => {
                self.sparse.real_size = Some(count("GNU.sparse.realsize")?);
            }
            b"GNU.sparse.offset" => {
                self.sparse.pending_offset = Some(count("GNU.sparse.offset")?);
            }
            b"GNU.sparse.numbytes" => {
                let len = count("GNU.sparse.numbytes")?;
                let offset = self.sparse.pending_offset.take();
                let offset = offset.ok_or_else(|| wrong("GNU.sparse.numbytes"))?;
                self.sparse.map.push((offset, len));
                self.sparse.has_map = true;
            }
            b"GNU.sparse.map" => {
                self.sparse.map = sparse_map(value).ok_or_else(|| wrong("GNU.sparse.map"))?;
                self.sparse.has_map = true;
            }
            b"GNU.sparse.numblocks" => self.sparse.has_map = true,
            key => self.attribute(key, value, at)?,
        }
        Ok(())
    }

    fn attribute(&mut self, key: &[u8], value: &[u8], at: Location) -> Result<(), TreeError> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.xattrs.insert(name.to_vec(), value.to_vec());
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            let name = percent_decode(name);
            // Writers that store both forms store the same value.
            if let Entry::Vacant(slot) = self.xattrs.entry(name) {
                slot.insert(base64(value).ok_or_else(|| TreeError::Field {
                    at,
                    field: "LIBARCHIVE.xattr",
                    found: format!("`{}`", value[..value.len().min(64)].escape_ascii()),
                    expected: "base64",
                })?);
            }
        } else if key == b"RHT.security.selinux" {
            // The archive contains the label without the NUL that ends the xattr.
            let value = [value, b"\0"].concat();
            self.xattrs.insert(b"security.selinux".to_vec(), value);
        } else if let Some(name) = acl::attribute_of(key) {
            self.acls.insert(name, value.to_vec());
        } else if key.starts_with(b"SCHILY.acl.") {
            self.left_out.push(key.to_vec());
        }
        Ok(())
    }
}

/// Splits off the first record: key, value, rest.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(&bytes[..space])?).ok()?;
    let record = bytes.get(space + 1..len)?;
    let (b'\n', record) = record.split_last()? else {
        return None;
    };
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &bytes[len..]))
}

/// Returns a decimal number below 2^63.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let value = text.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })?;
    (value <= i64::MAX.cast_unsigned()).then_some(value)
}

/// Parses seconds with an optional sign and fraction; digits beyond nanoseconds are rounded down.
fn timestamp(text: &[u8]) -> Option<Timestamp> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let seconds = decimal(parts.next()?)?.cast_signed();
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanoseconds = (0..9).fold(0, |value, index| {
        value * 10 + u32::from(fraction.get(index).map_or(0, |digit| digit - b'0'))
    });
    Some(match (is_negative, nanoseconds) {
        (false, nanoseconds) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp::from_seconds(-seconds),
        (true, nanoseconds) => {
            Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds }
        }
    })
}

/// Parses `offset,length,offset,length,...`
fn sparse_map(text: &[u8]) -> Option<Vec<(u64, u64)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let numbers: Option<Vec<u64>> = text.split(|byte| *byte == b',').map(decimal).collect();
    let numbers = numbers?;
    let pairs = numbers.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| (pair[0], pair[1])).collect())
}

fn percent_decode(text: &[u8]) -> Vec<u8> {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let digits = (hex(text.get(at + 1)), hex(text.get(at + 2)));
        if let (b'%', (Some(high), Some(low))) = (byte, digits) {
            decoded.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits"));
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    decoded
}

/// Decodes Base64 with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut decoded = Vec::with_capacity(end / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in &text[..end] {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push(((bits >> count) & 0xFF) as u8);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pax(records: &[u8]) -> Result<Pax, TreeError> {
        let mut pax = Pax::default();
        pax.read(records, Location::Whole).map(|()| pax)
    }

    #[test]
    fn records_override_fields() {
        let read = pax(b"11 path=ab\n23 SCHILY.xattr.a=b\nc=\n12 uid=1234\n8 path=\n").unwrap();
        assert_eq!(read.path, None);
        assert_eq!(read.uid, Some(1234));
        assert_eq!(read.xattrs[&b"a"[..]], b"b\nc=");
    }

    #[test]
    fn libarchive_attributes_are_decoded() {
        let read = pax(b"34 LIBARCHIVE.xattr.user%2ea=YWJj\n").unwrap();
        assert_eq!(read.xattrs[&b"user.a"[..]], b"abc");
        assert_eq!(base64(b"YQ==").unwrap(), b"a");
        assert_eq!(base64(b"YWI").unwrap(), b"ab");
        assert_eq!(base64(b"Y!"), None);
        assert_eq!(percent_decode(b"%4"), b"%4");
    }

    #[test]
    fn times_have_signs_and_fractions() {
        let time = |text: &[u8]| timestamp(text).map(|time| (time.seconds, time.nanoseconds));
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"12.1234567891"), Some((12, 123_456_789)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-3"), Some((-3, 0)));
        assert_eq!(time(b"1.x"), None);
        assert_eq!(time(b""), None);
    }

    #[test]
    fn broken_records_are_refused() {
        for records in [
            &b"99 path=ab\n"[..],
            b"11 path=ab ",
            b"path=ab\n",
            b"5 ab\n",
            b"0 a=b\n",
            b"99999999999999999999 a=b\n",
            b"12 size=12x\n",
            b"18 mtime=tomorrow\n",
            b"25 GNU.sparse.numbytes=5\n",
            b"22 GNU.sparse.map=1,2,\n",
            b"29 size=99999999999999999999\n",
        ] {
            assert!(pax(records).is_err(), "{}", records.escape_ascii());
        }
    }
}
