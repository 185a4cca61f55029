//! The format of ACLs: values of `system.posix_acl_access` and `system.posix_acl_default` as Linux
//! passes them in user space (acl(5)).

use super::names::quoted;
use super::refuse;
use crate::error::{FsError, FsErrorKind};

/// The xattr of the ACL that controls access to an inode.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The xattr of the ACL that a directory passes on to new inodes.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The version at the start of an ACL.
pub const VERSION: u32 = 2;
/// Entry of the owner.
pub const USER_OBJ: u16 = 0x01;
/// Entry of a user by id.
pub const USER: u16 = 0x02;
/// Entry of the file's group.
pub const GROUP_OBJ: u16 = 0x04;
/// Entry of a group by id.
pub const GROUP: u16 = 0x08;
/// Entry that limits all users and groups except the owner.
pub const MASK: u16 = 0x10;
/// Entry of all others.
pub const OTHER: u16 = 0x20;

/// Returns whether the name is that of an ACL.
pub fn is_acl_name(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// Refuses a value that is not an ACL if the name is that of one (EINVAL); any other name accepts
/// every value.
///
/// # Errors
///
/// Fails with EINVAL.
pub fn check_acl_value(name: &[u8], value: &[u8]) -> Result<(), FsError> {
    if is_acl_name(name) && !is_acl(value) {
        let message = format!("the value for {} is not an access control list", quoted(name));
        return refuse(FsErrorKind::Invalid, message);
    }
    Ok(())
}

/// Returns whether Linux accepts a value as an ACL: version 2, entries of 8 bytes by ascending
/// kind, one each for owner, group and others, and a mask if users or groups are named.
pub fn is_acl(value: &[u8]) -> bool {
    let Some((version, entries)) = value.split_first_chunk::<4>() else { return false };
    if u32::from_le_bytes(*version) != VERSION || !entries.len().is_multiple_of(8) {
        return false;
    }
    let mut seen = 0;
    let mut last = 0;
    for entry in entries.chunks_exact(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let permissions = u16::from_le_bytes([entry[2], entry[3]]);
        let is_known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER].contains(&tag);
        let is_next = tag > last || tag == last && (tag == USER || tag == GROUP);
        if !is_known || !is_next || permissions > 7 {
            return false;
        }
        last = tag;
        seen |= tag;
    }
    let needed = USER_OBJ | GROUP_OBJ | OTHER;
    let needed = needed | if seen & (USER | GROUP) == 0 { 0 } else { MASK };
    seen & needed == needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, permissions) in entries {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&permissions.to_le_bytes());
            value.extend_from_slice(&7_u32.to_le_bytes());
        }
        value
    }

    #[test]
    fn only_lists_are_values_of_lists() {
        let full = [(1, 6), (2, 4), (2, 7), (4, 0), (8, 1), (8, 1), (0x10, 7), (0x20, 0)];
        assert!(is_acl(&list(&full)));
        assert!(is_acl(&list(&[(1, 6), (4, 4), (0x20, 0)])));
        let wrong: [&[(u16, u16)]; 8] = [
            &[],
            &[(1, 6), (4, 4)],
            &[(1, 6), (2, 4), (4, 4), (0x20, 0)],
            &[(4, 4), (1, 6), (0x20, 0)],
            &[(1, 6), (1, 6), (4, 4), (0x20, 0)],
            &[(1, 8), (4, 4), (0x20, 0)],
            &[(1, 0x100), (4, 4), (0x20, 0)],
            &[(1, 6), (3, 0), (4, 4), (0x20, 0)],
        ];
        for entries in wrong {
            assert!(!is_acl(&list(entries)), "{entries:?}");
        }
        assert!(!is_acl(b"hello") && !is_acl(b"") && !is_acl(&list(&full)[..20]));
        assert_eq!(check_acl_value(ACCESS, b"hello").unwrap_err().kind(), FsErrorKind::Invalid);
        assert!(check_acl_value(b"user.a", b"hello").is_ok());
    }
}
