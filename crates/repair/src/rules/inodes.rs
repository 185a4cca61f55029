//! Fields of inodes, and inodes that are missing (spec: ubifs-format 21.5 N3 to N5; 21.6 X1 to X3).

use super::Rules;
use crate::model::{InodeLeaf, Object, blank_inode, file_type_of};
use crate::plan::{Action, Level, Part};
use eraseblock_base::Location;
use eraseblock_ubifs_format::constants::{
    ENCRYPTION_CONTEXT, MAX_FILE_SIZE, ROOT_INO, inode_flags, sb_flags,
};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Compression, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// The entries that name an inode: the directory, and the place among its entries.
type Names = BTreeMap<u32, Vec<(u32, usize)>>;

impl Rules<'_> {
    /// Returns which entries name an inode.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::new();
        for (dir, object) in &self.model.objects {
            for (index, entry) in object.entries.iter().enumerate() {
                names.entry(entry.target()).or_default().push((*dir, index));
            }
        }
        names
    }

    /// Returns the file type that all entries of an inode state, if they agree.
    fn stated_type(&self, names: &Names, ino: u32) -> Option<u32> {
        let entries = names.get(&ino)?.iter();
        let stated: BTreeSet<Option<u32>> = entries
            .map(|(dir, index)| self.model.objects.get(dir)?.entries.get(*index))
            .map(|entry| file_type_of(entry?.raw.kind))
            .collect();
        match stated.into_iter().collect::<Vec<_>>().as_slice() {
            [one] => *one,
            _ => None,
        }
    }

    /// N3 to N5: each inode by itself.
    pub(super) fn inodes(&mut self) {
        let names = self.names();
        let xattrs = self.model.objects.values().flat_map(|object| &object.xattrs);
        let values: BTreeSet<u32> = xattrs.map(crate::model::Entry::target).collect();
        let mut unusable = Vec::new();
        for ino in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let stated = self.stated_type(&names, ino);
            self.contradicted_type(ino, stated);
            let Some(object) = self.model.objects.get_mut(&ino) else { continue };
            let mut actions = Vec::new();
            if values.contains(&ino) && !names.contains_key(&ino) {
                flag_value(ino, object, &mut actions);
            }
            if !check_inode(ino, object, stated, self.sb, &mut actions) {
                unusable.push(ino);
            }
            self.actions.extend(actions);
        }
        for ino in unusable {
            let Some(inode) = self.model.object(ino).inode.take() else { continue };
            let why = format!("{}: what kind of inode it is cannot be told", self.name_of(ino));
            self.keep_origin(&inode.origin, &why);
            let loss = self.loss(ino, Part::Attributes);
            let at = inode.origin.at();
            let action = Action::new(Level::Drop, "leaf-wrong", "N3, N4", at, "remove", why);
            self.act(action.losing(loss));
        }
    }

    /// X2: the type of an inode that its names and its entries or content contradict. A reader shows
    /// another kind of file until then, so that this loses what it shows.
    fn contradicted_type(&mut self, ino: u32, stated: Option<u32>) {
        let Some(object) = self.model.objects.get_mut(&ino) else { return };
        let held = match (object.entries.is_empty(), object.blocks.is_empty()) {
            (false, true) => file_type::DIRECTORY,
            (true, false) => file_type::REGULAR,
            _ => return,
        };
        let Some(inode) = &mut object.inode else { return };
        let from = inode.raw.mode.get();
        let to = from & 0o7777 | held;
        let is_right = from == to || stated != Some(held) || !is_possible(inode);
        if ino == ROOT_INO || is_right || inode.is_xattr() || !inode.data.is_empty() {
            return;
        }
        inode.change(|inode| inode.raw.mode.set(to));
        let at = inode.origin.at();
        let why = format!("{}: its names and what it holds show the file type", self.name_of(ino));
        let action = Action::new(Level::Drop, "inode-wrong", "X2", at, "set", why);
        let action = action.sets("mode", octal(from), octal(to));
        let loss = self.loss(ino, Part::Attributes);
        self.act(action.losing(loss));
    }

    /// X1 to X3: entries or content without an inode.
    pub(super) fn missing_inodes(&mut self) {
        let names = self.names();
        for ino in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let Some(object) = self.model.objects.get(&ino) else { continue };
            if object.inode.is_some() {
                continue;
            }
            let (has_entries, has_content) =
                (!object.entries.is_empty(), !object.blocks.is_empty());
            let is_named = names.contains_key(&ino);
            if ino == ROOT_INO || has_entries {
                self.make_directory(ino, &names);
            } else if has_content && is_named {
                self.make_file(ino, &names);
            } else {
                self.drop_fragment(ino);
            }
        }
        if !self.model.objects.contains_key(&ROOT_INO) {
            self.make_directory(ROOT_INO, &names);
        }
    }

    /// Returns an inode with owner and times of its directory.
    fn like_parent(&self, ino: u32, mode: u32, names: &Names) -> InodeLeaf {
        let mut made = blank_inode(ino, mode);
        made.raw.compr_type.set(self.sb.default_compr.number());
        let parent = names.get(&ino).and_then(|names| names.first()).map(|(dir, _)| *dir);
        if let Some(parent) = parent.and_then(|parent| self.model.inode(parent)) {
            made.raw.uid = parent.raw.uid;
            made.raw.gid = parent.raw.gid;
            for (own, other) in [
                (&mut made.raw.atime_sec, parent.raw.mtime_sec),
                (&mut made.raw.ctime_sec, parent.raw.mtime_sec),
                (&mut made.raw.mtime_sec, parent.raw.mtime_sec),
            ] {
                *own = other;
            }
            made.raw.flags.set(parent.raw.flags.get() & 1);
        }
        made
    }

    fn make_directory(&mut self, ino: u32, names: &Names) {
        let is_root = ino == ROOT_INO;
        let permissions = if is_root { 0o755 } else { 0o700 };
        let inode = self.like_parent(ino, file_type::DIRECTORY | permissions, names);
        let why = format!(
            "{}: the inode is missing: a directory with mode {permissions:04o} and owner {} is made, \
             its entries stay",
            self.name_of(ino),
            inode.raw.uid.get()
        );
        self.model.object(ino).inode = Some(inode);
        let loss = self.loss(ino, Part::Attributes);
        let code = if is_root { "root-lost" } else { "inode-wrong" };
        let at = Location::Inode(ino.into());
        self.act(Action::new(Level::Drop, code, "X1, X2", at, "add", why).losing(loss));
    }

    fn make_file(&mut self, ino: u32, names: &Names) {
        let inode = self.like_parent(ino, file_type::REGULAR | 0o600, names);
        // The rule of sizes sets it.
        let size = self.model.object(ino).content_end();
        let why = format!(
            "{}: the inode is missing: a file with mode 0600, owner {} and {size} bytes is made of its \
             content",
            self.name_of(ino),
            inode.raw.uid.get()
        );
        self.model.object(ino).inode = Some(inode);
        let loss = self.loss(ino, Part::Attributes);
        let at = Location::Inode(ino.into());
        self.act(Action::new(Level::Drop, "inode-wrong", "X2, X3", at, "add", why).losing(loss));
    }

    /// Content or xattrs of an inode that is not there and that nothing names.
    fn drop_fragment(&mut self, ino: u32) {
        let end = self.model.object(ino).content_end();
        let why = format!("inode {ino} is missing, and no entry names it: its leaves go");
        let mut action = Action::new(
            Level::Drop,
            "inode-wrong",
            "X2",
            Location::Inode(ino.into()),
            "remove",
            why.clone(),
        );
        if end > 0 {
            action = action.losing(self.loss(ino, Part::Content { from: 0, to: end }));
        }
        let is_empty = self.model.objects.get(&ino).is_none_or(|object| {
            object.blocks.is_empty() && object.xattrs.is_empty() && object.entries.is_empty()
        });
        if !is_empty {
            self.act(action);
        }
        self.remove_object(ino, &why);
    }
}

/// X5: only an xattr names the inode, so that it holds its value.
fn flag_value(ino: u32, object: &mut Object, actions: &mut Vec<Action>) {
    let is_value = object.blocks.is_empty() && object.entries.is_empty();
    let inode = object.inode.as_mut().filter(|inode| is_value && inode.is_regular());
    let Some(inode) = inode else { return };
    let from = inode.raw.flags.get();
    let to = from | inode_flags::XATTR;
    inode.change(|inode| inode.raw.flags.set(to));
    let why = format!("inode {ino}: only an xattr names it");
    let at = inode.origin.at();
    let action = Action::new(Level::Safe, "inode-wrong", "X5", at, "set", why);
    actions.push(action.sets("flags", from, to));
}

/// Puts the fields of an inode right; returns whether it can be used.
fn check_inode(
    ino: u32,
    object: &mut Object,
    stated: Option<u32>,
    sb: &Superblock,
    actions: &mut Vec<Action>,
) -> bool {
    let (has_blocks, has_entries) = (!object.blocks.is_empty(), !object.entries.is_empty());
    let end = object.content_end();
    let has_context = object.xattrs.iter().any(|xattr| xattr.name == ENCRYPTION_CONTEXT);
    let Some(inode) = &mut object.inode else { return true };
    let at = inode.origin.at();
    let act =
        |rule: &str, why: String| Action::new(Level::Safe, "leaf-wrong", rule, at, "set", why);
    let number = inode.raw.compr_type.get();
    if Compression::from_number(number).is_none() {
        let to = sb.default_compr.number();
        inode.change(|inode| inode.raw.compr_type.set(to));
        let why = format!("inode {ino}: no such compressor");
        actions.push(act("N3", why).sets("compr_type", u64::from(number), u64::from(to)));
    }
    let held = inode.data.len() as u32;
    let stated_len = inode.raw.data_len.get();
    if stated_len != held && (inode.raw.nlink.get() != 0 || held != 0) {
        inode.change(|inode| inode.raw.data_len.set(held));
        let why = format!("inode {ino}: the node has {held} bytes of inline data");
        actions.push(act("N3", why).sets("data_len", stated_len, held));
    }
    let is_no_root = ino == ROOT_INO && inode.kind() != file_type::DIRECTORY;
    if !is_possible(inode) || is_no_root {
        let guess = derived_type(ino, inode, stated, has_blocks, has_entries);
        let Some(kind) = guess else { return false };
        let from = inode.raw.mode.get();
        let to = from & 0o7777 | kind;
        inode.change(|inode| inode.raw.mode.set(to));
        if !is_possible(inode) {
            return false;
        }
        let why = format!("inode {ino}: its names and content show the file type");
        actions.push(act("N3, N4", why).sets("mode", octal(from), octal(to)));
    }
    // Without a key nothing but the flag speaks for encryption. Readers show the names of an encrypted
    // directory encoded: one with names stays as it is.
    let cannot_be = !sb.has(sb_flags::ENCRYPTION) && !has_context && !has_entries;
    if inode.is_encrypted() && cannot_be {
        let from = inode.raw.flags.get();
        let to = from & !inode_flags::ENCRYPTED;
        inode.change(|inode| inode.raw.flags.set(to));
        let why = format!("inode {ino}: no encryption context, in a volume without encryption");
        actions.push(act("N5", why).sets("flags", from, to));
    }
    let size = inode.raw.size.get();
    let most = if inode.is_xattr() { u64::from(held) } else { end };
    if size > MAX_FILE_SIZE || inode.is_xattr() && size != u64::from(held) {
        inode.change(|inode| inode.raw.size.set(most));
        let why = format!("inode {ino}: an impossible size");
        actions.push(act("N3, N4", why).sets("size", size, most));
    }
    true
}

fn octal(mode: u32) -> String {
    format!("{mode:06o}")
}

/// Returns whether mode and inline data fit together.
fn is_possible(inode: &InodeLeaf) -> bool {
    let len =
        if inode.data.is_empty() { inode.raw.data_len.get() } else { inode.data.len() as u32 };
    if inode.is_xattr() {
        return inode.kind() == file_type::REGULAR;
    }
    match inode.kind() {
        file_type::REGULAR | file_type::DIRECTORY | file_type::FIFO | file_type::SOCKET => len == 0,
        file_type::SYMLINK => len >= 1,
        file_type::BLOCK | file_type::CHAR => len == 4 || len == 8,
        _ => false,
    }
}

/// Returns the file type on which names, content and inline data agree.
fn derived_type(
    ino: u32,
    inode: &InodeLeaf,
    stated: Option<u32>,
    has_blocks: bool,
    has_entries: bool,
) -> Option<u32> {
    let shown = [
        (ino == ROOT_INO || has_entries).then_some(file_type::DIRECTORY),
        (has_blocks || inode.is_xattr()).then_some(file_type::REGULAR),
        stated,
    ];
    let mut shown: Vec<u32> = shown.into_iter().flatten().collect();
    shown.dedup();
    match shown.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}
