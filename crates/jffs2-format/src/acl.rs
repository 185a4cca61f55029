//! ACLs: JFFS2's short form and the form of Linux's xattrs (spec: jffs2 10).

use alloc::vec::Vec;
use eraseblock_base::ByteOrder;

/// The version of the stored form.
const STORED_VERSION: u32 = 1;
/// The version of the xattr form.
const WIRE_VERSION: u32 = 2;
/// The identifier of entries that have none.
const NO_ID: u32 = u32::MAX;

/// Returns whether entries with this tag carry an identifier; `None` for an unknown tag.
fn has_id(tag: u16) -> Option<bool> {
    match tag {
        0x02 | 0x08 => Some(true),
        0x01 | 0x04 | 0x10 | 0x20 => Some(false),
        _ => None,
    }
}

/// Converts the stored form to the value of `system.posix_acl_*`; returns `None` if it is not an
/// ACL.
pub fn to_wire(order: ByteOrder, stored: &[u8]) -> Option<Vec<u8>> {
    let (version, mut rest) = stored.split_at_checked(4)?;
    if order.u32_at(version, 0) != STORED_VERSION {
        return None;
    }
    let mut wire = WIRE_VERSION.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (entry, after) = rest.split_at_checked(4)?;
        let tag = order.u16_at(entry, 0);
        let (id, after) = if has_id(tag)? {
            let (id, after) = after.split_at_checked(4)?;
            (order.u32_at(id, 0), after)
        } else {
            (NO_ID, after)
        };
        wire.extend_from_slice(&tag.to_le_bytes());
        wire.extend_from_slice(&order.u16_at(entry, 2).to_le_bytes());
        wire.extend_from_slice(&id.to_le_bytes());
        rest = after;
    }
    Some(wire)
}

/// Converts a value of `system.posix_acl_*` to the stored form; returns `None` if it is not an ACL.
pub fn from_wire(order: ByteOrder, wire: &[u8]) -> Option<Vec<u8>> {
    const LE: ByteOrder = ByteOrder::Little;
    let (version, rest) = wire.split_at_checked(4)?;
    if LE.u32_at(version, 0) != WIRE_VERSION || rest.len() % 8 != 0 {
        return None;
    }
    let mut stored = order.u32_bytes(STORED_VERSION).to_vec();
    for entry in rest.chunks_exact(8) {
        let tag = LE.u16_at(entry, 0);
        stored.extend_from_slice(&order.u16_bytes(tag));
        stored.extend_from_slice(&order.u16_bytes(LE.u16_at(entry, 2)));
        if has_id(tag)? {
            stored.extend_from_slice(&order.u32_bytes(LE.u32_at(entry, 4)));
        }
    }
    Some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// u::rw-, u:1000:rwx, g::r--, mask::rwx, o::r-- (section 10).
    const STORED: [u8; 28] = [
        1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 7, 0, 0xE8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 7, 0, 0x20, 0, 4, 0,
    ];

    #[test]
    fn the_acl_of_the_specification() {
        let wire = to_wire(ByteOrder::Little, &STORED).unwrap();
        assert_eq!(wire.len(), 4 + 5 * 8);
        assert_eq!(wire[..12], [2, 0, 0, 0, 1, 0, 6, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(wire[12..20], [2, 0, 7, 0, 0xE8, 3, 0, 0]);
        assert_eq!(from_wire(ByteOrder::Little, &wire).unwrap(), STORED);
        let big = from_wire(ByteOrder::Big, &wire).unwrap();
        assert_eq!(big[..4], [0, 0, 0, 1]);
        assert_eq!(to_wire(ByteOrder::Big, &big).unwrap(), wire);
    }

    #[test]
    fn what_is_no_acl_is_refused() {
        for len in [0, 3, 5, 13] {
            assert_eq!(to_wire(ByteOrder::Little, &STORED[..len]), None);
        }
        assert_eq!(to_wire(ByteOrder::Big, &STORED), None);
        assert_eq!(to_wire(ByteOrder::Little, &[1, 0, 0, 0, 3, 0, 0, 0]), None);
        assert_eq!(from_wire(ByteOrder::Little, &[2, 0, 0, 0, 1]), None);
        assert_eq!(from_wire(ByteOrder::Little, &[1, 0, 0, 0]), None);
    }
}
