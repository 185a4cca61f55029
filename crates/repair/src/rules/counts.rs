//! What is derived from the rest: link counts, sizes of directories, sums about xattrs, and sizes that
//! content goes beyond (spec: ubifs-format 6.1, 6.2, 6.6; 21.6 X7, X9 to X11).

use super::Rules;
use crate::model::{Entry, InodeLeaf, Object, Origin};
use crate::plan::{Action, Level};
use crate::scan::What;
use eraseblock_base::align::align_up;
use eraseblock_ubifs_format::EntryKind;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, NODE_ALIGN, ROOT_INO};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::raw::InodeNode;

/// A field, its row of the specification, its value, and what it must be.
type Counted = (&'static str, &'static str, u64, u64);

impl Rules<'_> {
    /// Puts all counts and sizes right.
    pub(super) fn counts(&mut self) {
        self.cut_off_blocks();
        let names = self.names();
        for ino in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let count = names.get(&ino).map_or(0, Vec::len) as u32;
            let Some(object) = self.model.objects.get(&ino) else { continue };
            let Some(inode) = &object.inode else { continue };
            let (is_made, at) = (inode.origin == Origin::Made, inode.origin.at());
            let mut raw = inode.raw;
            let mut counted = self.counted(ino, object, inode, count);
            counted.retain(|(_, _, from, to)| from != to);
            // What a mount does without being asked is done, but is no part of the plan.
            let replayed = self.replayed_size(ino, object, inode);
            if counted.is_empty() && replayed.is_none() {
                continue;
            }
            if let Some(size) = replayed {
                raw.size.set(size);
            }
            for (field, rule, from, to) in counted {
                let narrow = u32::try_from(to).unwrap_or(u32::MAX);
                match field {
                    "nlink" => raw.nlink.set(narrow),
                    "xattr_cnt" => raw.xattr_cnt.set(narrow),
                    "xattr_size" => raw.xattr_size.set(narrow),
                    "xattr_names" => raw.xattr_names.set(narrow),
                    _ => raw.size.set(to),
                }
                if !is_made {
                    let why = self.name_of(ino);
                    let action = Action::new(Level::Safe, "inode-wrong", rule, at, "set", why);
                    self.act(action.sets(field, from, to));
                }
            }
            if let Some(inode) = &mut self.model.object(ino).inode {
                inode.change(|inode| inode.raw = raw);
            }
        }
    }

    fn counted(&self, ino: u32, object: &Object, inode: &InodeLeaf, names: u32) -> Vec<Counted> {
        let raw = &inode.raw;
        let is_dir = |entry: &&Entry| entry.raw.kind == EntryKind::Directory.number();
        let mut size = None;
        let nlink = if inode.is_xattr() {
            1
        } else if inode.is_dir() {
            let weights: u64 = object.entries.iter().map(Entry::weight).sum();
            // mkfs.ubifs counts the plain names of encrypted directories.
            let is_counted = !inode.is_encrypted();
            size = is_counted.then_some(("size", "X9", InodeNode::SIZE as u64 + weights));
            2 + object.entries.iter().filter(is_dir).count() as u32
        } else {
            names + u32::from(ino == ROOT_INO)
        };
        if inode.kind() == file_type::SYMLINK && !inode.is_encrypted() {
            size = Some(("size", "X9", inode.data.len() as u64));
        }
        if inode.is_regular() {
            size = self.grown_size(object, inode).map(|size| ("size", "X11", size));
        }
        let mut sums = (0, 0, 0);
        for xattr in &object.xattrs {
            let value = self.model.inode(xattr.target()).map_or(0, |value| value.data.len());
            // One byte more than the value: part of the format.
            let value = align_up((InodeNode::SIZE + value + 1) as u32, NODE_ALIGN);
            sums.0 += 1;
            sums.1 += xattr.weight() + u64::from(value);
            sums.2 += xattr.name.len() as u64;
        }
        let mut counted = vec![
            ("nlink", "X7", u64::from(raw.nlink.get()), u64::from(nlink)),
            ("xattr_cnt", "X10", u64::from(raw.xattr_cnt.get()), sums.0),
            ("xattr_size", "X10", u64::from(raw.xattr_size.get()), sums.1),
            ("xattr_names", "X10", u64::from(raw.xattr_names.get()), sums.2),
        ];
        counted.extend(size.map(|(field, rule, to)| (field, rule, raw.size.get(), to)));
        counted
    }

    /// X11: the size that a file must have for its content: no byte is cut off. A cut may leave content
    /// after the end in the last block, which is not visible.
    fn grown_size(&self, object: &Object, inode: &InodeLeaf) -> Option<u64> {
        let (size, end) = (inode.raw.size.get(), object.content_end());
        if end <= size {
            return None;
        }
        let is_newer = object
            .blocks
            .last_key_value()
            .is_some_and(|(_, block)| block.sqnum > inode.sqnum() && inode.origin != Origin::Made);
        let is_far = end > size.next_multiple_of(BLOCK_SIZE.into());
        (is_far || self.is_scanned && is_newer).then_some(end)
    }

    /// The size that the replay of the journal gives a file.
    fn replayed_size(&self, ino: u32, object: &Object, inode: &InodeLeaf) -> Option<u64> {
        let size = inode.raw.size.get();
        if !inode.is_regular() || object.content_end() <= size {
            return None;
        }
        (self.size_of)(ino).filter(|replayed| *replayed > size)
    }

    /// X11: blocks that a newer truncation cut off.
    fn cut_off_blocks(&mut self) {
        let mut cuts: Vec<(u32, u64, u64)> = Vec::new();
        for node in &self.scan.nodes {
            if let What::Truncation { ino, new_size } = node.what {
                cuts.push((ino, new_size, node.sqnum));
            }
        }
        for (ino, new_size, sqnum) in cuts {
            let Some(object) = self.model.objects.get_mut(&ino) else { continue };
            let size = object.inode.as_ref().map_or(0, |inode| inode.raw.size.get());
            // The replay of the journal knows better, if a mount would see the content.
            let size = (self.size_of)(ino).unwrap_or(0).max(size);
            let first = new_size.max(size).div_ceil(BLOCK_SIZE.into());
            let is_cut = |number: &u32, block: &crate::model::Block| {
                u64::from(*number) >= first && block.sqnum < sqnum
            };
            let before = object.blocks.len();
            let gone: Vec<_> = object
                .blocks
                .iter()
                .filter(|(number, block)| is_cut(number, block))
                .map(|(_, block)| block.origin)
                .collect();
            object.blocks.retain(|number, block| !is_cut(number, block));
            if object.blocks.len() == before {
                continue;
            }
            let why = format!("{}: blocks that a truncation cut off", self.name_of(ino));
            let at = gone.first().map_or(eraseblock_base::Location::Whole, Origin::at);
            for origin in gone {
                self.keep_origin(&origin, &why);
            }
            self.act(Action::new(Level::Safe, "inode-wrong", "X11", at, "remove", why));
        }
    }
}
