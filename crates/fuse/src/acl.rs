//! POSIX ACLs. The kernel enforces them; their effect on a mode, and inheritance by new inodes, are
//! up to the mounted file system (acl(5)).

use crate::ids::{IdMap, IdMaps};
pub(crate) use eraseblock_vfs::rules::acl::{ACCESS, DEFAULT};
use eraseblock_vfs::rules::acl::{GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, VERSION};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// An ACL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acl {
    entries: Vec<Entry>,
}

/// What a new inode inherits from the default ACL of its directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inherited {
    /// Its permission bits.
    pub(crate) permissions: u32,
    /// Its own ACL, unless its mode is equivalent.
    pub(crate) access: Option<Acl>,
}

impl Acl {
    /// Decodes the value of an xattr; returns `None` if it is not an ACL.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || !rest.len().is_multiple_of(8) {
            return None;
        }
        let entry = |bytes: &[u8]| {
            let (tag, bytes) = bytes.split_first_chunk::<2>()?;
            let (permissions, id) = bytes.split_first_chunk::<2>()?;
            Some(Entry {
                tag: u16::from_le_bytes(*tag),
                permissions: u16::from_le_bytes(*permissions) & 7,
                id: u32::from_le_bytes(*id.first_chunk::<4>()?),
            })
        };
        let entries: Option<Vec<Entry>> = rest.chunks_exact(8).map(entry).collect();
        Some(Self { entries: entries? })
    }

    /// Returns the value of the xattr.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend_from_slice(&entry.tag.to_le_bytes());
            value.extend_from_slice(&entry.permissions.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        value
    }

    /// Returns the ACL with users and groups mapped to those of the host.
    pub(crate) fn shown(self, ids: &IdMaps) -> Self {
        let shown = |map: &IdMap, id| Some(map.shown(id));
        self.mapped(ids, shown).expect("every id can be shown")
    }

    /// Returns the ACL with users and groups mapped to those of the image, or `None` if one cannot
    /// be mapped.
    pub(crate) fn stored(self, ids: &IdMaps) -> Option<Self> {
        self.mapped(ids, IdMap::stored)
    }

    fn mapped(mut self, ids: &IdMaps, map: fn(&IdMap, u32) -> Option<u32>) -> Option<Self> {
        for entry in &mut self.entries {
            match entry.tag {
                USER => entry.id = map(&ids.uid, entry.id)?,
                GROUP => entry.id = map(&ids.gid, entry.id)?,
                _ => {}
            }
        }
        Some(self)
    }

    /// Returns whether a mode is equivalent.
    pub(crate) fn is_only_a_mode(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// Returns the nine permission bits of an inode with this ACL; the mask takes the place of the
    /// group.
    pub(crate) fn permissions(&self) -> u32 {
        let owner = self.find(USER_OBJ);
        let group = self.find(MASK).or(self.find(GROUP_OBJ));
        let bits = [owner, group, self.find(OTHER)].map(|entry| entry.map_or(0, |e| e.permissions));
        bits.iter().fold(0, |mode, bits| mode << 3 | u32::from(*bits))
    }

    /// Returns the ACL after chmod to these permission bits.
    pub(crate) fn with_permissions(mut self, permissions: u32) -> Self {
        for (shift, entry) in self.of_mode() {
            entry.permissions = (permissions >> shift & 7) as u16;
        }
        self
    }

    /// Returns what an inode created with these permission bits inherits from this default ACL.
    pub(crate) fn inherited(mut self, permissions: u32) -> Inherited {
        let mut mode = permissions;
        for (shift, entry) in self.of_mode() {
            entry.permissions &= (permissions >> shift & 7) as u16;
            mode = mode & !(7 << shift) | u32::from(entry.permissions) << shift;
        }
        let access = (!self.is_only_a_mode()).then_some(self);
        Inherited { permissions: mode, access }
    }

    /// Returns the entries that correspond to mode bits, each with the position of its bits. The
    /// mask, if there is one, takes the place of the group.
    fn of_mode(&mut self) -> impl Iterator<Item = (u32, &mut Entry)> {
        let group = if self.find(MASK).is_some() { MASK } else { GROUP_OBJ };
        self.entries.iter_mut().filter_map(move |entry| {
            let shift = match entry.tag {
                USER_OBJ => 6,
                OTHER => 0,
                tag if tag == group => 3,
                _ => return None,
            };
            Some((shift, entry))
        })
    }

    fn find(&self, tag: u16) -> Option<Entry> {
        self.entries.iter().find(|entry| entry.tag == tag).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Acl {
        let entry = |(tag, permissions, id): &(u16, u16, u32)| Entry {
            tag: *tag,
            permissions: *permissions,
            id: *id,
        };
        Acl { entries: entries.iter().map(entry).collect() }
    }

    const NONE: u32 = u32::MAX;

    fn full() -> Acl {
        acl(&[
            (USER_OBJ, 7, NONE),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, NONE),
            (MASK, 6, NONE),
            (OTHER, 4, NONE),
        ])
    }

    #[test]
    fn lists_go_both_ways() {
        assert_eq!(Acl::decode(&full().encode()), Some(full()));
        assert_eq!(Acl::decode(&[1, 0, 0, 0]), None);
        assert_eq!(Acl::decode(&[2, 0, 0, 0, 1]), None);
        assert_eq!(Acl::decode(&[]), None);
    }

    #[test]
    fn a_mask_stands_for_the_group() {
        assert_eq!(full().permissions(), 0o764);
        let plain = acl(&[(USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE), (OTHER, 0, NONE)]);
        assert_eq!((plain.permissions(), plain.is_only_a_mode()), (0o640, true));
        let changed = full().with_permissions(0o600);
        assert_eq!(changed.permissions(), 0o600);
        assert_eq!(changed.find(GROUP_OBJ), full().find(GROUP_OBJ));
        assert_eq!(plain.with_permissions(0o7).permissions(), 0o7);
    }

    #[test]
    fn a_default_list_limits_what_is_asked_for() {
        let inherited = full().inherited(0o4640);
        assert_eq!(inherited.permissions, 0o4640);
        let access = inherited.access.unwrap();
        assert_eq!(access.find(MASK).unwrap().permissions, 4);
        assert_eq!(access.find(USER).unwrap().permissions, 6);
        let plain = acl(&[(USER_OBJ, 7, NONE), (GROUP_OBJ, 5, NONE), (OTHER, 0, NONE)]);
        let inherited = plain.inherited(0o666);
        assert_eq!((inherited.permissions, inherited.access), (0o640, None));
    }

    #[test]
    fn users_and_groups_are_mapped() {
        let uid = IdMap { ranges: vec!["1000:5".parse().unwrap()] };
        let ids = IdMaps { uid, gid: IdMap::default() };
        let shown = full().shown(&ids);
        assert_eq!(shown.find(USER).unwrap().id, 5);
        assert_eq!(shown.clone().stored(&ids), Some(full()));
        assert_eq!(acl(&[(USER, 7, 6)]).stored(&ids), None);
    }
}
