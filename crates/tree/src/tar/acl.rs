//! ACLs in archives: text in the records `SCHILY.acl.access` and `SCHILY.acl.default`, converted to
//! the value of the xattr (acl(5)).

use super::pax::decimal;
use eraseblock_vfs::rules::acl::{
    ACCESS, DEFAULT, GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, VERSION, is_acl,
};
use std::collections::BTreeMap;

/// Returns the xattr for a record with this key.
pub(super) fn attribute_of(key: &[u8]) -> Option<&'static [u8]> {
    match key {
        b"SCHILY.acl.access" => Some(ACCESS),
        b"SCHILY.acl.default" => Some(DEFAULT),
        _ => None,
    }
}

/// Ids of users and groups that own members of an archive, by name. Names of the host are unrelated
/// to those in an archive.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: BTreeMap<Vec<u8>, u32>,
    groups: BTreeMap<Vec<u8>, u32>,
}

impl Names {
    /// Records the owners of a member.
    pub(super) fn learn(&mut self, user: (&[u8], u32), group: (&[u8], u32)) {
        for (names, (name, id)) in [(&mut self.users, user), (&mut self.groups, group)] {
            if !name.is_empty() && !names.contains_key(name) {
                names.insert(name.to_vec(), id);
            }
        }
    }

    fn find(&self, tag: u16, name: &[u8]) -> Option<u32> {
        let names = if tag == USER { &self.users } else { &self.groups };
        names.get(name).copied().or((name == b"root").then_some(0))
    }
}

/// Returns the value of the xattr `name`, or `None` if the mode is equivalent.
///
/// Fails, with the reason, if the text is not an ACL, or for users and groups whose name is not in
/// `names`: GNU tar stores no ids.
pub(super) fn value(name: &[u8], text: &[u8], names: &Names) -> Result<Option<Vec<u8>>, String> {
    let mut entries = Vec::new();
    for line in text.split(|byte| matches!(byte, b'\n' | b',')) {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if !line.is_empty() {
            entries.push(entry(line, names)?);
        }
    }
    entries.sort_unstable();
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, id, permissions) in &entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    if !is_acl(&value) {
        return Err(format!("`{}` is not an access control list", shown(text)));
    }
    let is_only_a_mode = name == ACCESS && entries.len() == 3;
    Ok((!is_only_a_mode).then_some(value))
}

/// Parses `user:1000:rw-`, `user:name:rw-:1000`, `mask::r--` or `mask:r--` into kind, id,
/// permissions.
fn entry(line: &[u8], names: &Names) -> Result<(u16, u32, u16), String> {
    let wrong = || format!("`{}` is not an entry of an access control list", shown(line));
    let line = line.strip_prefix(b"default:").unwrap_or(line);
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').map(<[u8]>::trim_ascii).collect();
    let (kind, whose, permissions, number) = match fields.as_slice() {
        [kind, permissions] => (*kind, &b""[..], *permissions, None),
        [kind, whose, permissions] => (*kind, *whose, *permissions, None),
        [kind, whose, permissions, number] => (*kind, *whose, *permissions, Some(*number)),
        _ => return Err(wrong()),
    };
    let (own, named) = match kind {
        b"user" | b"u" => (USER_OBJ, Some(USER)),
        b"group" | b"g" => (GROUP_OBJ, Some(GROUP)),
        b"mask" | b"m" => (MASK, None),
        b"other" | b"o" => (OTHER, None),
        _ => return Err(wrong()),
    };
    let permissions = bits(permissions).ok_or_else(wrong)?;
    if whose.is_empty() {
        return Ok((own, u32::MAX, permissions));
    }
    let tag = named.ok_or_else(wrong)?;
    let number = number.or(Some(whose)).and_then(decimal);
    let id = number.or_else(|| names.find(tag, whose).map(u64::from));
    let id = id.ok_or_else(|| format!("`{}` has no id", shown(line)))?;
    Ok((tag, u32::try_from(id).map_err(|_| wrong())?, permissions))
}

/// Parses `rw-` into bits; dashes may be omitted.
fn bits(text: &[u8]) -> Option<u16> {
    text.iter().try_fold(0, |bits, letter| match letter {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })
}

fn shown(text: &[u8]) -> String {
    text[..text.len().min(64)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn lists_of_all_writers_are_read() {
        let (all, mut names) = (u32::MAX, Names::default());
        names.learn((b"jane", 1234), (b"jane", 5));
        let expected = list(&[
            (1, 6, all),
            (2, 7, 0),
            (2, 4, 1234),
            (4, 4, all),
            (0x10, 7, all),
            (0x20, 0, all),
        ]);
        for text in [
            &b"user::rw-\nuser:1234:r--\nuser:root:rwx\ngroup::r--\nmask::rwx\nother::---\n"[..],
            b"u::rw,g::r,o::-,m::rwx,u:0:rwx,u:1234:r",
            b"user::rw-,user:joe:r--:1234,user:root:rwx:0,group::r--,mask:rwx,other:---",
            b"user::rw-\nuser:jane:r--\nuser:root:rwx\ngroup::r--\nmask::rwx\nother::---\n",
            b"user::rw-\t#effective:rw-\nuser:1234:r--\nuser:0:rwx\ngroup::r--\nmask::rwx\nother::---",
        ] {
            assert_eq!(value(ACCESS, text, &names), Ok(Some(expected.clone())), "{}", shown(text));
        }
        let plain = b"user::rwx\ngroup::r-x\nother::---\n";
        assert_eq!(value(ACCESS, plain, &names), Ok(None));
        assert!(value(DEFAULT, plain, &names).unwrap().is_some(), "a mode says nothing of it");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let names = Names::default();
        for text in [
            &b""[..],
            b"user::rw-",
            b"user::rwz\ngroup::r--\nother::---",
            b"user::rw-\nuser:1:r--\ngroup::r--\nother::---",
            b"user::rw-\nmask:5:rwx\ngroup::r--\nother::---",
            b"user::rw-\nuser:99999999999:r--\ngroup::r--\nmask::r--\nother::---",
            b"owner@:rw-p::allow",
        ] {
            assert!(value(ACCESS, text, &names).is_err(), "{}", shown(text));
        }
        let named = b"user::rw-\nuser:joe:r--\ngroup::r--\nmask::r--\nother::---";
        assert!(value(ACCESS, named, &names).unwrap_err().contains("user:joe:r--"));
    }
}
