//! Names that cannot be shown as stored: those of encrypted directories without the key (spec:
//! ubifs-runtime 25.4), and those that are not valid names (`.`, `..`, with `/` or NUL).
//!
//! Such a name is shown as `_nokey_` and the base64url of its bytes; one that would become too long
//! as `_nokeyx_` and the base64url of its key hash, its cookie and its first bytes.

use crate::tnc::OwnedDent;

const SHORT: &[u8] = b"_nokey_";
const LONG: &[u8] = b"_nokeyx_";
/// Longest stored name shown in full.
const MAX_SHORT: usize = 184;
/// Bytes of a longer one that are shown.
const PREFIX: usize = 168;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The meaning of a shown name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// This stored name.
    Stored(Vec<u8>),
    /// A stored name with this hash, cookie and beginning.
    Abbreviated { hash: u32, cookie: u32, prefix: Vec<u8> },
}

/// Returns whether a stored name can be shown unchanged.
pub(crate) fn is_plain(name: &[u8]) -> bool {
    !name.is_empty()
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// Returns the name to show for an entry.
pub(crate) fn shown(dent: &OwnedDent, is_encrypted: bool) -> Vec<u8> {
    shown_name(&dent.name, (dent.key.value(), dent.cookie), is_encrypted)
}

/// Returns the name under which a reader shows a stored one, whose entry has this key hash and cookie
/// (spec: ubifs-runtime 25.4).
pub fn shown_name(name: &[u8], id: (u32, u32), is_encrypted: bool) -> Vec<u8> {
    if is_encrypted || !is_plain(name) { coded_name(name, id) } else { name.to_vec() }
}

/// Returns characters in place of a name that cannot be shown.
pub(crate) fn coded(dent: &OwnedDent) -> Vec<u8> {
    coded_name(&dent.name, (dent.key.value(), dent.cookie))
}

fn coded_name(name: &[u8], (hash, cookie): (u32, u32)) -> Vec<u8> {
    if name.len() <= MAX_SHORT {
        return [SHORT, &encode(name)].concat();
    }
    let (hash, cookie) = (hash.to_be_bytes(), cookie.to_be_bytes());
    let prefix = name.get(..PREFIX).unwrap_or_default();
    [LONG, &encode(&[&hash, &cookie, prefix].concat())].concat()
}

/// Returns the alternative meaning of a name given by a caller, if it has one.
pub(crate) fn decoded(name: &[u8]) -> Option<Wanted> {
    if let Some(text) = name.strip_prefix(LONG) {
        let bytes = decode(text)?;
        let (hash, rest) = bytes.split_first_chunk()?;
        let (cookie, prefix) = rest.split_first_chunk()?;
        return Some(Wanted::Abbreviated {
            hash: u32::from_be_bytes(*hash),
            cookie: u32::from_be_bytes(*cookie),
            prefix: prefix.to_vec(),
        });
    }
    decode(name.strip_prefix(SHORT)?).map(Wanted::Stored)
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() * 4 / 3 + 3);
    for chunk in bytes.chunks(3) {
        let mut word = 0_u32;
        for index in 0..3 {
            word = word << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
        }
        let digits = [18, 12, 6, 0].map(|shift| DIGITS[(word >> shift & 63) as usize]);
        text.extend(&digits[..=chunk.len()]);
    }
    text
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            let value = DIGITS.iter().position(|known| known == digit)?;
            word = word << 6 | u32::try_from(value).ok()?;
        }
        word <<= 6 * (4 - chunk.len()) as u32;
        let whole = word.to_be_bytes();
        bytes.extend(whole.get(1..chunk.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_ubifs_format::{EntryKind, Key};

    fn dent(name: &[u8]) -> OwnedDent {
        let key = Key::dent(1, 0x1234_5678);
        OwnedDent { key, ino: 65, kind: EntryKind::Regular, cookie: 7, name: name.to_vec() }
    }

    #[test]
    fn shown_names_lead_back() {
        for len in 1..=MAX_SHORT {
            let name: Vec<u8> = (0..len).map(|index| (index * 37) as u8).collect();
            let shown = shown(&dent(&name), true);
            assert!(shown.len() <= 255 && is_plain(&shown));
            assert_eq!(decoded(&shown), Some(Wanted::Stored(name)));
        }
        let shown = shown(&dent(&[0xEE; 255]), true);
        assert!(shown.len() <= 255);
        let wanted =
            Wanted::Abbreviated { hash: 0x1234_5678, cookie: 7, prefix: vec![0xEE; PREFIX] };
        assert_eq!(decoded(&shown), Some(wanted));
    }

    #[test]
    fn only_names_that_need_it_are_encoded() {
        assert_eq!(shown(&dent(b"plain"), false), b"plain");
        for name in [&b".."[..], b".", b"a/b", b"a\0b"] {
            assert!(is_plain(&shown(&dent(name), false)));
        }
        assert_eq!(decoded(b"plain"), None);
        assert_eq!(decoded(b"_nokey_%"), None);
    }
}
