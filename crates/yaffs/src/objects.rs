//! The objects of a file system while a scan meets their chunks, newest first (spec: yaffs2 6).

use eraseblock_yaffs_format::constants::object;
use eraseblock_yaffs_format::{Header, ObjectKind};
use std::collections::BTreeMap;

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) parent: u32,
    /// The newest header that can be read, and its page.
    pub(crate) header: Option<(u32, Header)>,
    /// Whether the newest header was met, readable or not: older ones are void.
    pub(crate) is_settled: bool,
    pub(crate) size: u64,
    /// Older data from here on is void.
    limit: u64,
    /// Whether an older object of the same number ended: what is older belongs to that one.
    has_ended: bool,
    /// The object that a hard link names.
    pub(crate) equivalent: u32,
    /// Position of the newest header in the scan: lower is newer.
    pub(crate) rank: u32,
}

impl Object {
    /// An object of which only the number is known.
    pub(crate) fn unknown(kind: ObjectKind) -> Self {
        Self {
            kind,
            parent: object::LOST_FOUND,
            header: None,
            is_settled: false,
            size: 0,
            limit: u64::MAX,
            has_ended: false,
            equivalent: 0,
            rank: u32::MAX,
        }
    }
}

/// What the tags of a header state, or the header itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    pub(crate) kind: ObjectKind,
    pub(crate) parent: u32,
    pub(crate) size: u64,
    pub(crate) equivalent: u32,
    pub(crate) is_shrink: bool,
}

impl Stated {
    /// Returns whether the object has no name any more.
    fn is_removed(&self) -> bool {
        matches!(self.parent, object::UNLINKED | object::DELETED)
    }
}

/// All objects, and where the chunks of files are.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) all: BTreeMap<u32, Object>,
    /// Pages by object and chunk number.
    pub(crate) chunks: BTreeMap<(u32, u32), u32>,
    /// Bytes of content in a chunk.
    data: u64,
    met: u32,
}

impl Objects {
    /// Starts with the directories that every file system has.
    pub(crate) fn new(data: u32) -> Self {
        let (root, unlinked) = (object::ROOT, object::DELETED);
        let own = (root..=unlinked).map(|id| {
            let parent = if id == object::LOST_FOUND { root } else { 0 };
            (id, Object { parent, ..Object::unknown(ObjectKind::Directory) })
        });
        Self { all: own.collect(), chunks: BTreeMap::new(), data: data.into(), met: 0 }
    }

    /// Takes a data chunk unless a newer one, or a newer size, voids it.
    pub(crate) fn data(&mut self, id: u32, chunk: u32, bytes: u32, page: u32) {
        let object = self.all.entry(id).or_insert_with(|| Object::unknown(ObjectKind::File));
        let offset = u64::from(chunk - 1) * self.data;
        if object.kind != ObjectKind::File || offset >= object.limit {
            return;
        }
        if let std::collections::btree_map::Entry::Vacant(place) = self.chunks.entry((id, chunk)) {
            place.insert(page);
            if !object.is_settled {
                object.size = object.size.max(offset + u64::from(bytes));
            }
        }
    }

    /// Takes a data chunk of YAFFS1, where the furthest one decides on the size.
    pub(crate) fn furthest(&mut self, id: u32, chunk: u32, bytes: u32, page: u32) {
        let object = self.all.entry(id).or_insert_with(|| Object::unknown(ObjectKind::File));
        if object.kind == ObjectKind::File {
            let end = u64::from(chunk - 1) * self.data + u64::from(bytes);
            object.size = object.size.max(end);
            self.chunks.insert((id, chunk), page);
        }
    }

    /// Returns whether an object still needs a header: for its place, or only for its attributes.
    pub(crate) fn wants_header(&self, id: u32) -> bool {
        self.all.get(&id).is_none_or(|object| object.header.is_none())
    }

    /// Returns whether the newest header of an object was met.
    pub(crate) fn is_settled(&self, id: u32) -> bool {
        self.all.get(&id).is_some_and(|object| object.is_settled)
    }

    /// Takes a header: the newest of its object, or one that is void but for the limits it sets.
    /// `header` is `None` if it cannot be read.
    pub(crate) fn header(&mut self, id: u32, stated: &Stated, header: Option<(u32, Header)>) {
        if self.is_settled(id) {
            self.void_header(id, stated, header);
        } else {
            self.newest_header(id, stated, header);
        }
    }

    fn newest_header(&mut self, id: u32, stated: &Stated, header: Option<(u32, Header)>) {
        self.met += 1;
        let rank = self.met;
        let object = self.all.entry(id).or_insert_with(|| Object::unknown(stated.kind));
        object.is_settled = true;
        object.rank = rank;
        object.header = header;
        if id <= object::DELETED {
            return;
        }
        let had_data = object.kind == ObjectKind::File && stated.kind != ObjectKind::File;
        object.kind = stated.kind;
        object.parent = stated.parent;
        object.equivalent = stated.equivalent;
        if stated.kind == ObjectKind::File {
            object.size = object.size.max(stated.size);
            object.limit = object.limit.min(stated.size);
        }
        if had_data {
            self.drop_data(id);
        }
        let directory = || Object::unknown(ObjectKind::Directory);
        self.all.entry(stated.parent).or_insert_with(directory);
    }

    fn void_header(&mut self, id: u32, stated: &Stated, header: Option<(u32, Header)>) {
        let Some(object) = self.all.get_mut(&id) else { return };
        object.has_ended |= stated.is_removed();
        if object.kind == ObjectKind::File {
            if object.has_ended {
                object.limit = 0;
            } else if stated.is_shrink {
                object.limit = object.limit.min(stated.size);
            }
        }
        if !object.has_ended && object.kind == stated.kind && object.header.is_none() {
            object.header = header;
        }
    }

    /// Voids everything older of an object that a newer header replaces.
    pub(crate) fn replace(&mut self, id: u32) {
        if id <= object::DELETED || id > object::MAX || self.all.contains_key(&id) {
            return;
        }
        let deleted = Object {
            parent: object::UNLINKED,
            is_settled: true,
            limit: 0,
            has_ended: true,
            ..Object::unknown(ObjectKind::File)
        };
        self.all.insert(id, deleted);
    }

    fn drop_data(&mut self, id: u32) {
        let range = (id, 0)..=(id, u32::MAX);
        let keys: Vec<(u32, u32)> = self.chunks.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            self.chunks.remove(&key);
        }
    }
}
