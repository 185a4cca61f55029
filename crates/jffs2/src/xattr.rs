//! Xattrs (spec: jffs2 10).

use crate::codes;
use crate::mount::Jffs2;
use eraseblock_base::Location;
use eraseblock_jffs2_format::constants::XATTR_LEN;
use eraseblock_jffs2_format::node::{PREFIX_ACL_ACCESS, PREFIX_ACL_DEFAULT, full_name};
use eraseblock_jffs2_format::{acl, decode};
use eraseblock_vfs::FsError;
use std::collections::BTreeMap;

/// Full name and value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);
/// Name space, name and value.
type StoredPair = (u8, Vec<u8>, Vec<u8>);

impl Jffs2 {
    /// Returns the attributes of an inode, sorted by name. Pairs that cannot be read are late
    /// findings.
    pub(crate) fn attributes_of(&self, ino: u32) -> Result<Vec<Pair>, FsError> {
        // The tables are sorted: the last reference of each pair is the newest.
        let xrefs = &self.tables.xrefs;
        let start = xrefs.partition_point(|xref| xref.ino < ino);
        let mine = xrefs[start..].iter().take_while(|xref| xref.ino == ino);
        let newest: BTreeMap<u32, u32> = mine.map(|xref| (xref.xid, xref.xseqno)).collect();
        let mut found: BTreeMap<(u8, Vec<u8>), (u32, Vec<u8>)> = BTreeMap::new();
        for (xid, xseqno) in newest {
            if xseqno & 1 != 0 {
                continue;
            }
            let Some(pair) = self.pair(ino, xid)? else { continue };
            let kept = found.entry((pair.0, pair.1)).or_insert((xseqno, Vec::new()));
            if kept.0 <= xseqno {
                *kept = (xseqno, pair.2);
            }
        }
        let order = self.info.shape.order;
        let pairs = found.into_iter().filter_map(|((prefix, name), (_, value))| {
            let value = match prefix {
                PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => {
                    let wire = acl::to_wire(order, &value);
                    if wire.is_none() {
                        self.warn(
                            Location::Inode(ino.into()),
                            codes::ACL_DAMAGED,
                            "not an ACL".into(),
                        );
                    }
                    wire?
                }
                _ => value,
            };
            Some((full_name(prefix, &name)?, value))
        });
        Ok(pairs.collect())
    }

    /// Returns name space, name and value of a pair, or `None` if it does not exist or is damaged.
    fn pair(&self, ino: u32, xid: u32) -> Result<Option<StoredPair>, FsError> {
        let pairs = &self.tables.pairs;
        let end = pairs.partition_point(|pair| pair.xid <= xid);
        let Some(pair) =
            end.checked_sub(1).map(|index| pairs[index]).filter(|pair| pair.xid == xid)
        else {
            return Ok(None);
        };
        let mut head = [0; XATTR_LEN as usize];
        self.read_place(pair.place, &mut head)?;
        let order = self.info.shape.order;
        let at = Location::Inode(ino.into());
        let read = || -> Result<_, FsError> {
            let header = decode::header(order, &head, at).ok();
            let len = header.map_or(0, |header| header.totlen.min(self.info.shape.erase_size));
            let mut bytes = vec![0; len as usize];
            self.read_place(pair.place, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = read()?;
        match decode::xattr(order, &bytes, at) {
            Ok(found) => Ok(Some((found.prefix, found.name.to_vec(), found.value.to_vec()))),
            Err(error) => {
                self.warn(at, codes::XATTR_DAMAGED, error.to_string());
                Ok(None)
            }
        }
    }
}
