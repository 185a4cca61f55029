//! Entries by themselves, and the inodes that they name (spec: ubifs-format 21.5 N6, N7; 21.6 X1 to
//! X5, X12).

use super::Rules;
use crate::model::{Entry, entry_kind};
use crate::plan::{Action, Level, shown};
use eraseblock_base::Location;
use eraseblock_ubifs_format::constants::{MAX_NAME_LEN, ROOT_INO};
use eraseblock_ubifs_format::{EntryKind, Key, KeyKind};

/// What becomes of an entry.
enum Fate {
    Stays,
    Changes(Action),
    Goes(Action),
}

impl Rules<'_> {
    /// N6, N7, X12: lengths, keys and names of entries.
    pub(super) fn entries(&mut self) {
        for ino in self.model.objects.keys().copied().collect::<Vec<_>>() {
            for kind in [KeyKind::Dent, KeyKind::Xent] {
                let entries = self.take_entries(ino, kind);
                let mut kept = Vec::new();
                for mut entry in entries {
                    match self.check_entry(ino, kind, &mut entry) {
                        Fate::Stays => kept.push(entry),
                        Fate::Changes(action) => {
                            self.act(action);
                            kept.push(entry);
                        }
                        Fate::Goes(action) => {
                            self.keep_origin(&entry.origin, &action.why);
                            self.act(action);
                        }
                    }
                }
                let kept = self.without_twins(ino, kept);
                *self.entries_of(ino, kind) = kept;
            }
        }
    }

    fn entries_of(&mut self, ino: u32, kind: KeyKind) -> &mut Vec<Entry> {
        let object = self.model.object(ino);
        match kind {
            KeyKind::Xent => &mut object.xattrs,
            _ => &mut object.entries,
        }
    }

    fn take_entries(&mut self, ino: u32, kind: KeyKind) -> Vec<Entry> {
        std::mem::take(self.entries_of(ino, kind))
    }

    fn check_entry(&self, dir: u32, kind: KeyKind, entry: &mut Entry) -> Fate {
        let at = entry.origin.at();
        let name = shown(&entry.name);
        let is_encrypted = self.model.inode(dir).is_some_and(crate::model::InodeLeaf::is_encrypted);
        let is_xattr = kind == KeyKind::Xent;
        let goes = |rule: &str, why: String, level: Level, loss: bool| {
            let mut action = Action::new(level, "leaf-wrong", rule, at, "remove", why);
            if loss {
                action = action.losing(self.lost_name(dir, entry));
            }
            Fate::Goes(action)
        };
        if entry.raw.inum.get() == 0 {
            let why = format!("{name}: a deletion in the index");
            return goes("N6", why, Level::Safe, false);
        }
        let is_odd = entry.name == b"." || entry.name == b".." || entry.name.contains(&b'/');
        let is_bad = entry.name.contains(&0) || !is_xattr && is_odd;
        if is_bad && (is_xattr || !is_encrypted) || entry.name.len() > MAX_NAME_LEN {
            let why = format!("{}: {name} is no name", self.name_of(dir));
            return goes("N6", why, Level::Drop, true);
        }
        let stated = usize::from(entry.raw.nlen.get());
        if stated != entry.name.len() {
            let to = entry.name.len() as u32;
            entry.raw.nlen.set(to as u16);
            entry.origin.renew();
            let why = format!("{name}: the node has a name of {to} bytes");
            let action = Action::new(Level::Safe, "leaf-wrong", "N6", at, "set", why);
            return Fate::Changes(action.sets("nlen", stated as u64, to));
        }
        let hash = self.sb.key_hash.hash(&entry.name);
        let key = entry.key();
        if key.value() != hash {
            let to = if is_xattr { Key::xent(dir, hash) } else { Key::dent(dir, hash) };
            entry.set_key(to);
            let why = format!("{name}: the key is not the hash of the name");
            let action = Action::new(Level::Safe, "leaf-wrong", "N7", at, "set", why);
            return Fate::Changes(action.sets("key", key.value(), hash));
        }
        Fate::Stays
    }

    /// X12: a name occurs once: the newer entry stays.
    fn without_twins(&mut self, dir: u32, mut entries: Vec<Entry>) -> Vec<Entry> {
        entries.sort_by(|one, two| {
            (one.key(), &one.name, two.sqnum()).cmp(&(two.key(), &two.name, one.sqnum()))
        });
        let mut kept: Vec<Entry> = Vec::new();
        for entry in entries {
            let is_twin = kept.last().is_some_and(|last| last.name == entry.name);
            if !is_twin {
                kept.push(entry);
                continue;
            }
            let why =
                format!("{}: the name {} occurs twice", self.name_of(dir), shown(&entry.name));
            self.keep_origin(&entry.origin, &why);
            let at = entry.origin.at();
            let action = Action::new(Level::Drop, "keys-disordered", "X12", at, "remove", why);
            self.act(action.losing(self.lost_name(dir, &entry)));
        }
        kept
    }

    /// X1 to X5: what entries of directories name.
    pub(super) fn targets(&mut self) {
        for dir in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let entries = self.take_entries(dir, KeyKind::Dent);
            let mut kept = Vec::new();
            for mut entry in entries {
                match self.check_target(dir, &mut entry) {
                    Fate::Stays => kept.push(entry),
                    Fate::Changes(action) => {
                        self.act(action);
                        kept.push(entry);
                    }
                    Fate::Goes(action) => {
                        self.keep_origin(&entry.origin, &action.why);
                        self.act(action);
                    }
                }
            }
            self.model.object(dir).entries = kept;
        }
    }

    fn check_target(&self, dir: u32, entry: &mut Entry) -> Fate {
        let at = entry.origin.at();
        let path = self.path_in(dir, &entry.name);
        let path = path.map_or_else(|| shown(&entry.name), |path| shown(&path));
        let goes = |code, rule: &str, why: String| {
            let action = Action::new(Level::Drop, code, rule, at, "remove", why);
            Fate::Goes(action.losing(self.lost_name(dir, entry)))
        };
        if self.model.inode(dir).is_some_and(|inode| !inode.is_dir()) {
            let why = format!("{path}: an entry of something that is no directory");
            return goes("inode-wrong", "X2", why);
        }
        let target = entry.target();
        if target == ROOT_INO {
            return goes("inode-wrong", "X1", format!("{path}: a name of the root directory"));
        }
        let Some(inode) = self.model.inode(target) else {
            let why = format!("{path}: inode {} is missing", entry.raw.inum.get());
            return goes("inode-wrong", "X3", why);
        };
        if inode.is_xattr() {
            return goes("inode-wrong", "X4, X5", format!("{path}: it holds an xattr"));
        }
        let stated = entry.raw.kind;
        match entry_kind(inode.kind()).map(EntryKind::number) {
            Some(kind) if kind != stated => {
                entry.raw.kind = kind;
                entry.origin.renew();
                let why = format!("{path}: the inode is of another kind");
                let action = Action::new(Level::Safe, "inode-wrong", "X4", at, "set", why);
                Fate::Changes(action.sets("type", u32::from(stated), u32::from(kind)))
            }
            _ => Fate::Stays,
        }
    }

    /// X2: content of something that is no regular file.
    pub(super) fn stray_leaves(&mut self) {
        for ino in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let Some(object) = self.model.objects.get(&ino) else { continue };
            let is_regular = object.inode.as_ref().is_none_or(crate::model::InodeLeaf::is_regular);
            if object.blocks.is_empty() || is_regular {
                continue;
            }
            let to = object.content_end();
            let origins: Vec<_> = object.blocks.values().map(|block| block.origin).collect();
            let why = format!("{}: content, but it is no regular file", self.name_of(ino));
            for origin in origins {
                self.keep_origin(&origin, &why);
            }
            self.model.object(ino).blocks.clear();
            let at = Location::Inode(ino.into());
            let action = Action::new(Level::Drop, "inode-wrong", "X2", at, "remove", why);
            let loss = self.loss(ino, crate::plan::Part::Content { from: 0, to });
            self.act(action.losing(loss));
        }
    }
}
