//! Directories, inodes and contents, now and in the past.

use super::index::Index;
use super::later::Later;
use super::space::Sizes;
use super::{Explorer, ROWS, Volumes, WholeContent, answered, failed};
use crate::documents::listing::{Entry, FileReport};
use crate::observe::Notes;
use crate::target::filesystem::Opened;
use crate::target::{AsOf, open_place};
use eraseblock_explore::{LARGEST, Question, Refusal};
use eraseblock_vfs::{FileKind, FsError, Ino};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// States of volumes that are kept open.
const KEPT: usize = 4;
/// Places of an inode that are listed at most.
const PLACES: usize = 5000;
/// Entries of a report at most.
pub(super) const REPORTED: usize = 20_000;

/// The file systems that were opened last.
pub(super) struct Files {
    volumes: Volumes,
    open: Mutex<VecDeque<(Key, Arc<Opened>)>>,
    sizes: Mutex<VecDeque<(Key, Later<Sizes>)>>,
}

/// A volume and its state.
type Key = (String, String);

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Tree {
    ino: Ino,
    entries: Vec<Entry>,
    from: u64,
    total: u64,
}

#[derive(Serialize)]
struct Inode {
    #[serde(flatten)]
    file: FileReport,
    /// Where its nodes are, old ones included.
    places: Vec<PlaceRow>,
    has_more_places: bool,
}

#[derive(Serialize)]
struct PlaceRow {
    at: u64,
    len: u32,
    kind: &'static str,
    state: &'static str,
    block: Option<usize>,
}

impl Files {
    pub(super) fn new(volumes: Volumes) -> Self {
        Self { volumes, open: Mutex::default(), sizes: Mutex::default() }
    }

    /// Opens the volume that a question names, in its state.
    fn get(&self, question: &Question) -> Result<Arc<Opened>, Refusal> {
        let key = key_of(question);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, opened)) = open.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(opened));
        }
        let place = self.volumes.place(question)?;
        let mut shape = self.volumes.shape.clone();
        shape.as_of = match question.text("asof") {
            None | Some("") => None,
            Some(text) => Some(text.parse::<AsOf>().map_err(Refusal::bad)?),
        };
        let opened = open_place(&place, &shape, &mut Notes::default());
        let opened = Arc::new(opened.map_err(|error| failed(&error))?.0);
        if open.len() == KEPT {
            open.pop_front();
        }
        open.push_back((key, Arc::clone(&opened)));
        Ok(opened)
    }

    /// Answers with the entries of a directory.
    pub(super) fn tree(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let opened = self.get(question)?;
        let fs = opened.fs();
        let ino = question.number("ino", fs.root())?;
        let mut entries = fs.entries(ino).map_err(|error| damaged(&error))?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let (from, total) = (question.number("from", 0)?, entries.len() as u64);
        let at = usize::try_from(from).unwrap_or(usize::MAX);
        let rows = entries.iter().skip(at).take(ROWS);
        let entries = rows.map(|it| Entry::of(fs, it.ino, &it.name)).collect();
        answered(&Tree { ino, entries, from, total })
    }

    /// Answers with all that is known of an inode.
    pub(super) fn inode(
        &self,
        volume: &str,
        number: &str,
        question: &Question,
        index: &Index,
    ) -> Result<Vec<u8>, Refusal> {
        let (number, volume) = (super::block::parse("an inode number", number)?, volume.to_owned());
        let asked = question.text("asof").unwrap_or_default();
        let asked = Question::parse("inode", &format!("vol={volume}&asof={asked}"))?;
        let opened = self.get(&asked)?;
        let file = FileReport::of(opened.fs(), number, String::new());
        let file = file.map_err(|error| damaged(&error))?;
        let volume = super::block::parse("the number of a volume", &volume)?;
        let ino = u32::try_from(number).map_err(|_| Refusal::bad("ino: too large"))?;
        let mut places: Vec<PlaceRow> = index
            .of_inode(volume, ino)
            .take(PLACES + 1)
            .map(|node| PlaceRow {
                at: node.at,
                len: node.len,
                kind: node.kind,
                state: node.state.name(),
                block: index.block_at(node.at),
            })
            .collect();
        let has_more_places = places.len() > PLACES;
        places.truncate(PLACES);
        answered(&Inode { file, places, has_more_places })
    }

    /// Answers with the space of a directory and of those below it.
    pub(super) fn space(&self, question: &Question, index: &Index) -> Result<Vec<u8>, Refusal> {
        let opened = self.get(question)?;
        let key = key_of(question);
        let later = {
            let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            let known = sizes.iter().find(|(known, _)| *known == key);
            let known = known.map(|(_, later)| later.clone());
            known.unwrap_or_else(|| {
                if sizes.len() == KEPT {
                    sizes.pop_front();
                }
                let later = Later::default();
                sizes.push_back((key, later.clone()));
                later
            })
        };
        let volume = question.number("vol", 0)?;
        let stored = Sizes::stored(index, u32::try_from(volume).unwrap_or(0));
        let root = opened.fs().root();
        let sizes = later.get(move || Ok(Sizes::of(opened.fs(), &stored)))?;
        sizes.document(question.number("ino", root)?)
    }

    /// Returns a part of the content of a file.
    fn content(
        &self,
        question: &Question,
        ino: Ino,
        range: (u64, u64),
    ) -> Result<Vec<u8>, Refusal> {
        let opened = self.get(question)?;
        let attr = opened.fs().attr(ino).map_err(|error| damaged(&error))?;
        if attr.kind != FileKind::Regular {
            return Err(Refusal::bad("only regular files have content"));
        }
        let (from, len) = range;
        let len = len.min(attr.size.saturating_sub(from));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let mut done = 0;
        while done < bytes.len() {
            let read = opened.fs().read(ino, from + done as u64, &mut bytes[done..]);
            match read.map_err(|error| damaged(&error))? {
                0 => break,
                len => done += len,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Returns the regular files of a volume that have at most `limit` bytes each.
    pub(super) fn contents(&self, volume: u32, limit: u64) -> Vec<WholeContent> {
        let mut found = BTreeMap::new();
        let asked = Question::parse("tree", &format!("vol={volume}"));
        let Ok(opened) = asked.and_then(|asked| self.get(&asked)) else { return Vec::new() };
        let fs = opened.fs();
        let (mut waiting, mut seen) = (vec![fs.root()], BTreeSet::new());
        while let Some(ino) = waiting.pop() {
            if !seen.insert(ino) {
                continue;
            }
            for entry in fs.entries(ino).unwrap_or_default() {
                match entry.kind {
                    FileKind::Directory => waiting.push(entry.ino),
                    FileKind::Regular => {
                        let size = fs.attr(entry.ino).map_or(u64::MAX, |attr| attr.size);
                        if size > 0 && size <= limit {
                            found.insert(entry.ino, size);
                        }
                    }
                    _ => {}
                }
            }
        }
        let whole = |(ino, size)| WholeContent { size, volume, ino, sqnum: None, commit: None };
        found.into_iter().map(whole).collect()
    }

    /// Returns the questions of a report about the files of a volume.
    pub(super) fn questions(&self, volume: u32, volumes: &Volumes) -> Vec<String> {
        let mut all = Vec::new();
        let head = format!("vol={volume}");
        let Ok(asked) = Question::parse("tree", &head) else { return all };
        if volumes.place(&asked).is_err() {
            return all;
        }
        let Ok(opened) = self.get(&asked) else { return all };
        for path in ["space?asof=", "tree?asof=&from=0"] {
            all.push(format!("{path}&vol={volume}"));
        }
        let (mut waiting, mut seen) = (vec![opened.fs().root()], BTreeSet::new());
        while let Some(ino) = waiting.pop() {
            if !seen.insert(ino) || all.len() > REPORTED {
                continue;
            }
            all.push(format!("tree?asof=&from=0&ino={ino}&vol={volume}"));
            all.push(format!("space?asof=&ino={ino}&vol={volume}"));
            for entry in opened.fs().entries(ino).unwrap_or_default() {
                if entry.kind == FileKind::Directory {
                    waiting.push(entry.ino);
                }
                if seen.len() + all.len() < REPORTED {
                    all.push(format!("inode/{volume}/{}?asof=", entry.ino));
                    all.push(format!(
                        "history?from=0&ino={}&vol={volume}&what=versions",
                        entry.ino
                    ));
                }
            }
        }
        all.sort();
        all.dedup();
        all
    }
}

impl Explorer {
    /// Answers with a part of a file, now, in the past or of one of its versions.
    pub(super) fn content(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let ino = question.number("ino", 0)?;
        let range = (question.number("from", 0)?, question.number("len", 4096)?);
        if range.1 > LARGEST {
            return Err(Refusal::bad(format!("len: at most {LARGEST} bytes at once")));
        }
        match question.text("sqnum") {
            Some(_) => self.pasts.content(question, ino, range),
            None => self.files.content(question, ino, range),
        }
    }
}

fn key_of(question: &Question) -> Key {
    let text = |name: &str| question.text(name).unwrap_or_default().to_owned();
    (text("vol"), text("asof"))
}

fn damaged(error: &FsError) -> Refusal {
    Refusal::damaged(error.to_string())
}
