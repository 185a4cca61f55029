//! Names that only a scan found: the size and link count of a directory are a checksum of its entries,
//! and decide which of them were deleted.

use super::Rules;
use crate::model::{Entry, entry_kind};
use crate::plan::{Action, Level, Loss, Part, shown};
use eraseblock_base::Location;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::raw::InodeNode;
use eraseblock_ubifs_format::{EntryKind, Key, KeyKind};

/// Entries of which all subsets are tried.
const MOST_TRIED: usize = 16;

/// What a directory says about its doubtful entries.
enum Verdict {
    /// All of them are in use.
    All,
    /// These are, by place in the list, and the others were deleted.
    These(u32),
    Unknown,
}

impl Rules<'_> {
    /// Removes deleted names that a scan made visible, and moves those about which nothing is known.
    pub(super) fn doubtful_names(&mut self) {
        if !self.is_scanned {
            return;
        }
        for dir in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let Some(object) = self.model.objects.get(&dir) else { continue };
            let Some(inode) = &object.inode else { continue };
            if !inode.is_dir() || inode.origin == crate::model::Origin::Made {
                continue;
            }
            // Each operation on an entry writes the directory, too: what is newer was added since.
            let since = inode.sqnum();
            let is_doubtful = |entry: &Entry| !entry.origin.is_vouched() && entry.sqnum() <= since;
            let (doubtful, kept): (Vec<Entry>, Vec<Entry>) =
                object.entries.iter().cloned().partition(is_doubtful);
            if doubtful.is_empty() {
                continue;
            }
            let old = kept.iter().filter(|entry| entry.sqnum() <= since);
            let certain = old.fold((0, 0), add);
            let size = inode.raw.size.get().saturating_sub(InodeNode::SIZE as u64);
            let links = inode.raw.nlink.get().saturating_sub(2);
            match verdict(&doubtful, certain, (size, links)) {
                Verdict::All => {}
                Verdict::These(set) => self.bury(dir, doubtful, kept, set),
                Verdict::Unknown => {
                    // More than the directory counts: some of them were deleted.
                    let all = doubtful.iter().fold(certain, add);
                    let is_excess = all.0 > size || all.1 > links;
                    self.doubt(dir, doubtful, kept, is_excess);
                }
            }
        }
    }

    /// Names what a reader without an index shows, although an index proves that it was deleted, or a
    /// damaged newer version that it was replaced.
    pub(crate) fn outdated(&mut self, outdated: Vec<(Key, Vec<u8>, u32)>) {
        for (key, name, target) in outdated {
            let ino = key.ino();
            if self.model.inode(ino).is_none() {
                continue;
            }
            let (what, loss) = match key.kind() {
                Some(KeyKind::Dent) => {
                    let path = self.path_in(ino, &name);
                    (shown(&name), Loss { path, ino: target, part: Part::Name })
                }
                Some(KeyKind::Xent) => {
                    let part = Part::Xattr { name: Some(shown(&name)) };
                    (format!("the xattr {}", shown(&name)), self.loss(ino, part))
                }
                Some(KeyKind::Data) => {
                    let from = u64::from(key.value()) * u64::from(BLOCK_SIZE);
                    let to = from + u64::from(BLOCK_SIZE);
                    let part = Part::Content { from, to };
                    (format!("bytes {from} to {}", to - 1), self.loss(ino, part))
                }
                _ => continue,
            };
            let why = format!("{}: {what}: deleted or replaced since", self.name_of(ino));
            let at = Location::Inode(ino.into());
            let action = Action::new(Level::Rebuild, "outdated-leaf", "I1", at, "remove", why);
            self.act(action.losing(loss));
        }
    }

    fn bury(&mut self, dir: u32, doubtful: Vec<Entry>, mut kept: Vec<Entry>, set: u32) {
        for (index, entry) in doubtful.into_iter().enumerate() {
            if set >> index & 1 == 1 {
                kept.push(entry);
                continue;
            }
            let why = format!(
                "{}: {} was deleted: the size of the directory does not count it",
                self.name_of(dir),
                shown(&entry.name)
            );
            self.keep_origin(&entry.origin, &why);
            self.dead.insert(entry.target());
            let at = entry.origin.at();
            let action = Action::new(Level::Rebuild, "deleted-name", "X9", at, "remove", why);
            self.act(action.losing(self.lost_name(dir, &entry)));
        }
        kept.sort_by(|one, two| (one.key(), &one.name).cmp(&(two.key(), &two.name)));
        self.model.object(dir).entries = kept;
    }

    /// No subset fits, or several do. If entries are missing rather than too many, names stay whose
    /// inode counts as many names as there are.
    fn doubt(&mut self, dir: u32, doubtful: Vec<Entry>, mut kept: Vec<Entry>, is_excess: bool) {
        let names = self.names();
        for entry in doubtful {
            let ino = entry.target();
            let count = names.get(&ino).map_or(0, Vec::len);
            let agrees = self.model.inode(ino).is_some_and(|inode| {
                let is_kind =
                    entry_kind(inode.kind()).map(EntryKind::number) == Some(entry.raw.kind);
                let links = inode.raw.nlink.get() as usize;
                is_kind && if inode.is_dir() { count == 1 } else { links == count }
            });
            if agrees && !is_excess {
                kept.push(entry);
                continue;
            }
            let why = format!(
                "{}: whether {} is in use or was deleted is not known",
                self.name_of(dir),
                shown(&entry.name)
            );
            self.keep_origin(&entry.origin, &why);
            self.doubtful.insert(entry.target());
            let at = entry.origin.at();
            let action = Action::new(Level::Rebuild, "doubtful-name", "X9", at, "move", why);
            self.act(action.losing(self.lost_name(dir, &entry)));
        }
        kept.sort_by(|one, two| (one.key(), &one.name).cmp(&(two.key(), &two.name)));
        self.model.object(dir).entries = kept;
    }
}

fn add(sum: (u64, u32), entry: &Entry) -> (u64, u32) {
    let is_dir = entry.raw.kind == EntryKind::Directory.number();
    (sum.0 + entry.weight(), sum.1 + u32::from(is_dir))
}

fn verdict(doubtful: &[Entry], certain: (u64, u32), wanted: (u64, u32)) -> Verdict {
    if doubtful.iter().fold(certain, add) == wanted {
        return Verdict::All;
    }
    if doubtful.len() > MOST_TRIED {
        return Verdict::Unknown;
    }
    let sum = |set: u32| {
        let chosen = doubtful.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
        chosen.fold(certain, |sum, (_, entry)| add(sum, entry))
    };
    let mut fitting = (0..1_u32 << doubtful.len()).filter(|set| sum(*set) == wanted);
    match (fitting.next(), fitting.next()) {
        (Some(set), None) => Verdict::These(set),
        _ => Verdict::Unknown,
    }
}
