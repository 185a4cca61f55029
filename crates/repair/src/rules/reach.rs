//! The tree: directories with one name each, reached from the root; what nothing names goes into
//! lost+found, directories with everything below them (spec: ubifs-format 21.6 X6 to X8).

use super::Rules;
use crate::model::{InodeLeaf, blank_inode, new_entry};
use crate::plan::{Action, Level, Part, shown};
use eraseblock_base::Location;
use eraseblock_ubifs_format::EntryKind;
use eraseblock_ubifs_format::constants::{ROOT_INO, sb_flags};
use eraseblock_ubifs_format::node::file_type;
use std::collections::{BTreeMap, BTreeSet};

/// The directory for what has no name.
const LOST_FOUND: &[u8] = b"lost+found";
/// The directory in it for what may have been deleted.
const DOUBTFUL: &[u8] = b"doubtful";

impl Rules<'_> {
    /// X6 to X8.
    pub(super) fn reachability(&mut self) {
        self.one_name_each();
        self.remove_orphans();
        self.adopt();
        while let Some((dir, index)) = self.oldest_link_of_a_cycle() {
            self.cut(dir, index);
            self.adopt();
        }
    }

    /// X7: of several names of a directory, the newest stays.
    fn one_name_each(&mut self) {
        for (ino, places) in self.names() {
            let is_dir = self.model.inode(ino).is_some_and(InodeLeaf::is_dir);
            if !is_dir || places.len() < 2 {
                continue;
            }
            let sqnum = |(dir, index): &(u32, usize)| {
                self.model.objects.get(dir).and_then(|dir| Some(dir.entries.get(*index)?.sqnum()))
            };
            let newest = places.iter().max_by_key(|place| (sqnum(place), **place)).copied();
            let mut others: Vec<_> =
                places.into_iter().filter(|place| Some(*place) != newest).collect();
            // The last first: the places of the others stay right.
            others.sort_unstable_by(|one, two| two.cmp(one));
            for (dir, index) in others {
                let why = format!("{}: a directory with several names", self.name_of(ino));
                self.drop_entry(dir, index, "X7", &why);
            }
        }
    }

    fn drop_entry(&mut self, dir: u32, index: usize, rule: &str, why: &str) {
        let entry = self.model.object(dir).entries.remove(index);
        self.keep_origin(&entry.origin, why);
        let at = entry.origin.at();
        let action = Action::new(Level::Drop, "inode-wrong", rule, at, "remove", why);
        self.act(action.losing(self.lost_name(dir, &entry)));
    }

    /// X6: inodes without links were deleted while they were open; so were those whose names a
    /// witness shows to be deleted, with everything below them.
    fn remove_orphans(&mut self) {
        loop {
            let names = self.names();
            let is_gone = |(ino, object): (&u32, &crate::model::Object)| {
                let inode = object.inode.as_ref()?;
                let is_named = names.contains_key(ino) || *ino == ROOT_INO;
                let is_deleted = inode.raw.nlink.get() == 0 || self.dead.contains(ino);
                (!is_named && !inode.is_xattr() && is_deleted).then_some(*ino)
            };
            let gone: Vec<u32> = self.model.objects.iter().filter_map(is_gone).collect();
            if gone.is_empty() {
                return;
            }
            for ino in gone {
                let is_dead = self.dead.contains(&ino);
                let object = self.model.objects.get(&ino);
                let below: Vec<u32> = object
                    .into_iter()
                    .flat_map(|object| &object.entries)
                    .map(crate::model::Entry::target)
                    .collect();
                let at = Location::Inode(ino.into());
                let why = format!("{}: deleted, and no name is left", self.name_of(ino));
                if is_dead {
                    let action = Action::new(
                        Level::Rebuild,
                        "deleted-inode",
                        "X6",
                        at,
                        "remove",
                        why.clone(),
                    );
                    self.act(action.losing(self.loss(ino, Part::Name)));
                    self.dead.extend(below);
                } else {
                    self.act(Action::new(
                        Level::Safe,
                        "inode-wrong",
                        "X6, M10",
                        at,
                        "remove",
                        why.clone(),
                    ));
                }
                self.remove_object(ino, &why);
            }
        }
    }

    /// X6: what has links, but no name, gets one.
    fn adopt(&mut self) {
        let names = self.names();
        let is_nameless = |(ino, object): (&u32, &crate::model::Object)| {
            let inode = object.inode.as_ref()?;
            let is_lost = !inode.is_xattr() && *ino != ROOT_INO && !names.contains_key(ino);
            is_lost.then_some(*ino)
        };
        let nameless: Vec<u32> = self.model.objects.iter().filter_map(is_nameless).collect();
        for ino in nameless {
            let is_doubtful = self.doubtful.contains(&ino);
            let mut dir = self.made_directory(ROOT_INO, LOST_FOUND);
            let mut path = shown(&self.path_of_made(dir));
            if is_doubtful {
                dir = self.made_directory(dir, DOUBTFUL);
                path = format!("{path}/{}", shown(DOUBTFUL));
            }
            let name = self.free_name(dir, &format!("INO_{ino}_"), 0);
            let why = format!("inode {ino} has no name");
            let at = Location::Inode(ino.into());
            let level = if is_doubtful { Level::Rebuild } else { Level::Safe };
            let action = Action::new(level, "inode-wrong", "X6", at, "add", why);
            self.act(action.sets("name", "", format!("{path}/{}", shown(&name))));
            self.name(dir, &name, ino);
        }
    }

    fn path_of_made(&self, ino: u32) -> Vec<u8> {
        let root = self.model.objects.get(&ROOT_INO);
        let entry = root.and_then(|root| root.entries.iter().find(|entry| entry.target() == ino));
        entry.map_or_else(|| LOST_FOUND.to_vec(), |entry| entry.name.clone())
    }

    fn name(&mut self, dir: u32, name: &[u8], ino: u32) {
        let has_cookies = self.sb.has(sb_flags::DOUBLE_HASH);
        let mut entry = new_entry(dir, name, ino, self.sb.key_hash, has_cookies);
        let kind = self.model.inode(ino).and_then(|inode| crate::model::entry_kind(inode.kind()));
        entry.raw.kind = kind.map_or(0, EntryKind::number);
        self.model.object(dir).entries.push(entry);
    }

    /// Returns a name that nothing in the directory has.
    fn free_name(&self, dir: u32, stem: &str, first: u32) -> Vec<u8> {
        let taken: BTreeSet<&[u8]> = self
            .model
            .objects
            .get(&dir)
            .into_iter()
            .flat_map(|object| &object.entries)
            .map(|entry| entry.name.as_slice())
            .collect();
        let mut names = (first..).map(|number| format!("{stem}{number}").into_bytes());
        names.find(|name| !taken.contains(name.as_slice())).unwrap_or_default()
    }

    /// Returns the directory of this name, which is made if it is not there. Where something else has
    /// the name, another one is used.
    fn made_directory(&mut self, parent: u32, name: &[u8]) -> u32 {
        let entries = self.model.objects.get(&parent).map(|object| object.entries.as_slice());
        let known = entries.unwrap_or_default().iter().find(|entry| entry.name == name);
        let known = known.map(crate::model::Entry::target);
        if let Some(ino) = known.filter(|ino| self.model.inode(*ino).is_some_and(InodeLeaf::is_dir))
        {
            return ino;
        }
        let mut own = name.to_vec();
        if known.is_some() {
            let stem = format!("{}~", shown(name));
            let other = entries.unwrap_or_default().iter().find(|entry| {
                let is_dir = self.model.inode(entry.target()).is_some_and(InodeLeaf::is_dir);
                is_dir && entry.name.starts_with(stem.as_bytes())
            });
            if let Some(other) = other {
                return other.target();
            }
            own = self.free_name(parent, &stem, 1);
        }
        self.highest += 1;
        let ino = self.highest;
        let mut inode = blank_inode(ino, file_type::DIRECTORY | 0o700);
        inode.raw.compr_type.set(self.sb.default_compr.number());
        let newest = self.newest_time();
        for field in [&mut inode.raw.atime_sec, &mut inode.raw.ctime_sec, &mut inode.raw.mtime_sec]
        {
            field.set(newest);
        }
        self.model.object(ino).inode = Some(inode);
        self.name(parent, &own, ino);
        ino
    }

    fn newest_time(&self) -> u64 {
        let inodes = self.model.objects.values().filter_map(|object| object.inode.as_ref());
        let times = inodes.map(|inode| inode.raw.ctime_sec.get().cast_signed());
        times.max().unwrap_or(0).cast_unsigned()
    }

    /// X8: the oldest entry that leads into a directory which cannot be reached from the root, although
    /// all of them have names: such directories are in a circle.
    fn oldest_link_of_a_cycle(&self) -> Option<(u32, usize)> {
        let mut reached = BTreeSet::from([ROOT_INO]);
        let mut open = vec![ROOT_INO];
        while let Some(dir) = open.pop() {
            let object = self.model.objects.get(&dir);
            for entry in object.into_iter().flat_map(|object| &object.entries) {
                if reached.insert(entry.target()) {
                    open.push(entry.target());
                }
            }
        }
        let parents: BTreeMap<u32, (u32, usize)> = self
            .names()
            .into_iter()
            .filter_map(|(ino, names)| Some((ino, *names.first()?)))
            .collect();
        let is_dir = |ino: &u32| self.model.inode(*ino).is_some_and(InodeLeaf::is_dir);
        let lost = self.model.objects.keys().find(|ino| is_dir(ino) && !reached.contains(ino))?;
        // Upwards from a directory that is not reached there is a circle.
        let mut seen = BTreeSet::new();
        let mut at = *lost;
        while seen.insert(at) {
            at = parents.get(&at)?.0;
        }
        let mut circle = vec![at];
        let mut next = parents.get(&at)?.0;
        while next != at {
            circle.push(next);
            next = parents.get(&next)?.0;
        }
        let links = circle.iter().filter_map(|ino| parents.get(ino).copied());
        links.min_by_key(|(dir, index)| {
            let object = self.model.objects.get(dir);
            object.and_then(|object| object.entries.get(*index)).map(crate::model::Entry::sqnum)
        })
    }

    fn cut(&mut self, dir: u32, index: usize) {
        let why = format!("inode {dir}: directories that contain each other");
        self.drop_entry(dir, index, "X8", &why);
    }
}
