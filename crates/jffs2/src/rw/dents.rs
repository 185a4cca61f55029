//! The names of a loaded directory.
//!
//! Layer: data. Uses nothing else of the run time.
//!
//! # Invariants
//! 1. Names are ordered by their hashes, and by their bytes if those are equal: that order never
//!    changes, and a hash is the cookie to continue after a name.
//! 2. A slot takes 24 bytes; the bytes of all names lie in `text`, of which at most an eighth
//!    belongs to removed names.
//! 3. No chunk is empty or longer than [`CHUNK`].

use std::cmp::Ordering;

/// Maximum number of names in a chunk.
const CHUNK: usize = 256;
/// Bytes of removed names allowed in addition to the eighth.
const LOST: usize = 4096;
/// The file type of a directory in a DIRENT node.
const DIRECTORY: u8 = 4;

/// The information of a directory about a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dent {
    /// Its DIRENT node.
    pub(crate) place: u32,
    /// The inode; 0 if the name is deleted.
    pub(crate) ino: u32,
    pub(crate) file_type: u8,
}

/// A name and its information.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    /// The hashes of all names after this one are higher.
    pub(crate) cookie: u64,
    pub(crate) name: &'a [u8],
    pub(crate) dent: Dent,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    place: u32,
    ino: u32,
    /// Where the name begins in the text.
    start: u32,
    len: u8,
    file_type: u8,
}

const _: () = assert!(size_of::<Slot>() == 24);

impl Slot {
    fn dent(&self) -> Dent {
        Dent { place: self.place, ino: self.ino, file_type: self.file_type }
    }

    fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start as usize..][..usize::from(self.len)]
    }

    fn order(&self, text: &[u8], hash: u64, name: &[u8]) -> Ordering {
        self.hash.cmp(&hash).then_with(|| self.name(text).cmp(name))
    }
}

/// Returns 63 bits of a name's hash, never 0 (FNV-1a, folded).
fn hash(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    ((hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1).max(1)
}

/// Adds a name to the text.
fn slot(text: &mut Vec<u8>, name: &[u8], dent: Dent) -> Slot {
    let Dent { place, ino, file_type } = dent;
    let (start, len) = (text.len() as u32, name.len() as u8);
    text.extend_from_slice(name);
    Slot { hash: hash(name), place, ino, start, len, file_type }
}

/// Names in the order found on flash; several of them may occur twice.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// With their versions.
    slots: Vec<(Slot, u32)>,
    text: Vec<u8>,
}

impl Found {
    pub(crate) fn push(&mut self, name: &[u8], dent: Dent, version: u32) {
        self.slots.push((slot(&mut self.text, name, dent), version));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Keeps the highest version of each name, the last of equal ones, and adds the places of the
    /// others to `dead`.
    pub(crate) fn resolve(mut self, dead: &mut Vec<u32>) -> Dents {
        let mut text = self.text;
        text.shrink_to_fit();
        let order = |a: &Slot, b: &Slot| a.order(&text, b.hash, b.name(&text));
        self.slots.sort_unstable_by(|a, b| {
            order(&a.0, &b.0).then(b.1.cmp(&a.1)).then(b.0.start.cmp(&a.0.start))
        });
        self.slots.dedup_by(|next, kept| {
            let is_same = order(&next.0, &kept.0).is_eq();
            dead.extend(is_same.then_some(next.0.place));
            is_same
        });
        let chunks = self.slots.chunks(CHUNK).map(|chunk| chunk.iter().map(|it| it.0).collect());
        let mut dents = Dents { chunks: chunks.collect(), text, ..Dents::default() };
        dents.count_all();
        dents.compact();
        dents
    }
}

/// The names of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dents {
    chunks: Vec<Vec<Slot>>,
    text: Vec<u8>,
    /// Bytes of the text that belong to removed names.
    lost: usize,
    /// Names, deletions included.
    len: usize,
    /// Names that are not deleted.
    live: u32,
    /// Directories among them.
    subdirectories: u32,
}

impl Dents {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.chunks.iter().flatten()
    }

    fn count_all(&mut self) {
        self.len = self.slots().count();
        self.lost = self.text.len() - self.slots().map(|slot| usize::from(slot.len)).sum::<usize>();
        let live = |slot: &&Slot| slot.ino != 0;
        self.live = self.slots().filter(live).count() as u32;
        let directories = self.slots().filter(live).filter(|slot| slot.file_type == DIRECTORY);
        self.subdirectories = directories.count() as u32;
    }

    /// Returns chunk and index of a name, or where it would be inserted.
    fn find(&self, name: &[u8]) -> Result<(usize, usize), (usize, usize)> {
        let hash = hash(name);
        let is_before = |slot: &Slot| slot.order(&self.text, hash, name).is_lt();
        let after = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let chunk = after.min(self.chunks.len().saturating_sub(1));
        let Some(slots) = self.chunks.get(chunk) else { return Err((0, 0)) };
        let found = slots.binary_search_by(|slot| slot.order(&self.text, hash, name));
        found.map(|index| (chunk, index)).map_err(|index| (chunk, index))
    }

    /// Returns the information about a name, deletions included.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Dent> {
        self.find(name).ok().map(|(chunk, index)| self.chunks[chunk][index].dent())
    }

    /// Returns the live name.
    pub(crate) fn live(&self, name: &[u8]) -> Option<Dent> {
        self.get(name).filter(|dent| dent.ino != 0)
    }

    /// Replaces the information about a name; returns the old one.
    pub(crate) fn insert(&mut self, name: &[u8], dent: Dent) -> Option<Dent> {
        self.count(dent, 1);
        match self.find(name) {
            Ok((chunk, index)) => {
                let known = &mut self.chunks[chunk][index];
                let old = known.dent();
                *known =
                    Slot { place: dent.place, ino: dent.ino, file_type: dent.file_type, ..*known };
                self.count(old, -1);
                Some(old)
            }
            Err(at) => {
                self.len += 1;
                let new = slot(&mut self.text, name, dent);
                self.insert_slot(at, new);
                None
            }
        }
    }

    fn insert_slot(&mut self, (chunk, index): (usize, usize), slot: Slot) {
        let Some(slots) = self.chunks.get_mut(chunk) else {
            self.chunks.push(vec![slot]);
            return;
        };
        slots.insert(index, slot);
        if slots.len() > CHUNK {
            let upper = slots.split_off(CHUNK / 2);
            slots.shrink_to_fit();
            self.chunks.insert(chunk + 1, upper);
        }
    }

    /// Removes a name; returns its information.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Dent> {
        let (chunk, index) = self.find(name).ok()?;
        let old = self.chunks[chunk].remove(index);
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
        self.len -= 1;
        self.count(old.dent(), -1);
        self.lost += usize::from(old.len);
        self.compact();
        Some(old.dent())
    }

    /// Rebuilds the text from the existing names if too much of it belongs to removed ones.
    fn compact(&mut self) {
        if self.lost <= LOST + self.text.len() / 8 {
            return;
        }
        let mut text = Vec::with_capacity(self.text.len() - self.lost);
        for slot in self.chunks.iter_mut().flatten() {
            let start = text.len() as u32;
            text.extend_from_slice(slot.name(&self.text));
            slot.start = start;
        }
        (self.text, self.lost) = (text, 0);
    }

    /// Adds a name to the counts, or subtracts it.
    fn count(&mut self, dent: Dent, by: i32) {
        if dent.ino != 0 {
            self.live = self.live.saturating_add_signed(by);
            let is_directory = dent.file_type == DIRECTORY;
            self.subdirectories =
                self.subdirectories.saturating_add_signed(by * i32::from(is_directory));
        }
    }

    /// Returns the names after a cookie, deletions included.
    pub(crate) fn behind(&self, cookie: u64) -> impl Iterator<Item = Entry<'_>> {
        let is_before = |slot: &Slot| slot.hash <= cookie;
        let first = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let slots =
            self.chunks[first..].iter().flatten().skip_while(move |slot| slot.hash <= cookie);
        slots.map(|slot| Entry {
            cookie: slot.hash,
            name: slot.name(&self.text),
            dent: slot.dent(),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Dent> {
        self.slots().map(Slot::dent)
    }

    /// Returns whether no name is alive.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the number of directories among the live names.
    pub(crate) fn subdirectories(&self) -> u32 {
        self.subdirectories
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.len * size_of::<Slot>() + self.text.len()
    }

    /// Updates the place of the node of a name that has moved; searches all names if it is not
    /// known which one.
    pub(crate) fn relocate(&mut self, old: u32, new: u32, name: Option<&[u8]>) {
        let found = match name {
            Some(name) => match self.find(name) {
                Ok((chunk, index)) => self.chunks[chunk].get_mut(index),
                Err(_) => None,
            },
            None => self.chunks.iter_mut().flatten().find(|slot| slot.place == old),
        };
        if let Some(slot) = found.filter(|slot| slot.place == old) {
            slot.place = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn dent(number: u32) -> Dent {
        let file_type = if number.is_multiple_of(3) { DIRECTORY } else { 8 };
        Dent { place: number * 4, ino: number % 5, file_type }
    }

    fn name(number: u32) -> Vec<u8> {
        vec![b'n'; number as usize % 90].into_iter().chain(number.to_le_bytes()).collect()
    }

    /// Compares all entries with those of the model.
    fn assert_same(dents: &Dents, map: &BTreeMap<(u64, Vec<u8>), Dent>) {
        let all = dents.behind(0).map(|entry| ((entry.cookie, entry.name.to_vec()), entry.dent));
        assert!(all.eq(map.iter().map(|(key, dent)| (key.clone(), *dent))));
        let live = map.values().filter(|dent| dent.ino != 0);
        let directories = live.clone().filter(|dent| dent.file_type == DIRECTORY).count();
        assert_eq!(dents.subdirectories() as usize, directories);
        assert_eq!(dents.is_empty(), live.count() == 0);
        assert_eq!(dents.len, map.len());
        assert!(dents.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        let used: usize = map.keys().map(|key| key.1.len()).sum();
        assert_eq!(dents.text.len(), used + dents.lost);
        assert!(dents.lost <= LOST + dents.text.len() / 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn names_of_a_directory_are_a_map_in_an_order_that_never_changes(
            found in proptest::collection::vec((0_u32..900, 0_u32..4), 0..900),
            steps in proptest::collection::vec((0_u32..900, any::<bool>()), 0..2000),
        ) {
            let (mut list, mut newest) = (Found::default(), BTreeMap::new());
            let (mut dead, mut expected) = (Vec::new(), Vec::new());
            for (number, (one, version)) in (1..).zip(found) {
                let (name, dent) = (name(one), dent(number));
                list.push(&name, dent, version);
                let key = (hash(&name), name);
                match newest.get(&key) {
                    Some((kept, _)) if *kept > version => expected.push(dent.place),
                    _ => expected.extend(newest.insert(key, (version, dent)).map(|it| it.1.place)),
                }
            }
            let mut dents = list.resolve(&mut dead);
            dead.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(dead, expected);
            let mut map: BTreeMap<_, _> = newest.into_iter().map(|(key, it)| (key, it.1)).collect();
            assert_same(&dents, &map);
            for (number, (one, is_gone)) in (1..).zip(steps) {
                let name = name(one);
                let key = (hash(&name), name.clone());
                if is_gone {
                    prop_assert_eq!(dents.remove(&name), map.remove(&key));
                } else {
                    prop_assert_eq!(dents.insert(&name, dent(number)), map.insert(key, dent(number)));
                }
            }
            assert_same(&dents, &map);
            for ((cookie, name), dent) in &map {
                prop_assert_eq!(dents.get(name), Some(*dent));
                let behind = map.range((cookie + 1, Vec::new())..).next();
                let next = dents.behind(*cookie).next().map(|entry| (entry.cookie, entry.name.to_vec()));
                prop_assert_eq!(next.as_ref(), behind.map(|it| it.0));
            }
        }
    }

    #[test]
    fn a_node_that_moved_is_found_with_its_name_and_without() {
        let mut dents = Dents::default();
        for number in 1..1000 {
            dents.insert(&name(number), dent(number));
        }
        dents.relocate(400, 8000, Some(&name(100)));
        dents.relocate(404, 8004, None);
        dents.relocate(404, 8008, Some(&name(102)));
        let place = |number| dents.get(&name(number)).unwrap().place;
        assert_eq!((place(100), place(101), place(102)), (8000, 8004, 408));
    }

    #[test]
    fn a_name_takes_24_bytes_and_its_own() {
        let mut found = Found::default();
        for number in 0..10_000_u32 {
            found.push(format!("name-{number:05}").as_bytes(), dent(number), 1);
        }
        let dents = found.resolve(&mut Vec::new());
        let room: usize = dents.chunks.iter().map(Vec::capacity).sum();
        assert_eq!(room * size_of::<Slot>() + dents.text.len(), 10_000 * (24 + 10));
        assert_eq!(dents.memory(), 10_000 * (24 + 10));
    }
}
