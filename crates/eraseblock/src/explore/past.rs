//! Commits, versions and deleted names.

use super::files::REPORTED;
use super::later::Later;
use super::{Found, ROWS, Volumes, WholeContent, answered, failed};
use crate::documents::past::{CommitReport, DeletedReport, VersionReport};
use crate::observe::Notes;
use crate::target::past::{self, Past};
use eraseblock_explore::{Question, Refusal};
use eraseblock_history::content::Contents;
use eraseblock_history::{Seen, Version};
use eraseblock_ubifs_format::node::file_type;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The pasts of the volumes.
#[derive(Debug)]
pub(super) struct Pasts {
    volumes: Volumes,
    known: Mutex<BTreeMap<String, Later<Past>>>,
    /// The volume whose contents were read last.
    contents: Mutex<Option<(String, Contents)>>,
}

#[derive(Serialize)]
struct Page<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<Vec<CommitReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<Vec<DeletedReport>>,
    from: u64,
    total: u64,
    #[serde(flatten)]
    found: Found<'a>,
}

impl Pasts {
    pub(super) fn new(volumes: Volumes) -> Self {
        Self { volumes, known: Mutex::default(), contents: Mutex::default() }
    }

    fn get(&self, question: &Question) -> Result<Arc<Past>, Refusal> {
        let place = self.volumes.place(question)?;
        let name = question.text("vol").unwrap_or_default().to_owned();
        let later = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(name).or_default().clone()
        };
        let shape = self.volumes.shape.clone();
        later.get(move || {
            let read = past::read_place(&place, &shape, &mut Notes::default());
            read.map_err(|error| failed(&error))
        })
    }

    /// Answers with a page of commits, of deleted names, or of the versions of an inode.
    pub(super) fn document(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let past = self.get(question)?;
        let history = &past.history;
        let from = question.number("from", 0)?;
        let at = usize::try_from(from).unwrap_or(usize::MAX);
        let most = ROWS;
        let (mut commits, mut versions, mut deleted) = (None, None, None);
        let ino = question.number("ino", 0)?;
        let total = match question.text("what") {
            Some("commits") => {
                let all = history.commits();
                commits = Some(all.iter().skip(at).take(most).map(CommitReport::of).collect());
                all.len()
            }
            Some("deleted") => {
                let all = history.deleted();
                deleted = Some(all.iter().skip(at).take(most).map(DeletedReport::of).collect());
                all.len()
            }
            Some("versions") => {
                let ino = u32::try_from(ino).map_err(|_| Refusal::bad("ino: too large"))?;
                let all = history.versions(ino);
                versions = Some(all.iter().skip(at).take(most).map(VersionReport::of).collect());
                all.len()
            }
            _ => return Err(Refusal::bad("what: expected commits, deleted or versions")),
        };
        let found = Found::of(history.findings());
        answered(&Page { commits, versions, deleted, from, total: total as u64, found })
    }

    /// Waits for the past of a volume; `None` if it has none.
    fn of_volume(&self, volume: u32) -> Option<Arc<Past>> {
        let question = Question::parse("history", &format!("vol={volume}")).ok()?;
        loop {
            match self.get(&question) {
                Err(refusal) if refusal.status == 503 => {}
                other => return other.ok(),
            }
        }
    }

    /// Returns the versions of the past of regular files in a volume that have at most `limit` bytes each.
    pub(super) fn contents(&self, volume: u32, limit: u64) -> Vec<WholeContent> {
        if limit == 0 {
            return Vec::new();
        }
        let Some(past) = self.of_volume(volume) else { return Vec::new() };
        let of = |version: &Version| {
            let known = version.attributes?;
            let is_past = !matches!(version.seen, Seen::Now { .. });
            let is_file = known.mode & file_type::MASK == file_type::REGULAR && !known.is_encrypted;
            let size = known.size;
            let is_wanted = is_past && is_file && size > 0 && size <= limit;
            let (ino, sqnum) = (version.ino.into(), Some(version.newest));
            let commit = match version.seen {
                Seen::Commits { last, .. } => Some(last),
                Seen::Now { .. } | Seen::Nodes => None,
            };
            is_wanted.then_some(WholeContent { size, volume, ino, sqnum, commit })
        };
        past.history.all().filter_map(of).collect()
    }

    /// Returns the questions of a report about the inodes of deleted names.
    pub(super) fn questions(&self, volume: u32) -> Vec<String> {
        let Some(past) = self.of_volume(volume) else { return Vec::new() };
        let inodes: BTreeSet<u32> = past.history.deleted().iter().map(|it| it.ino).collect();
        let question = |ino| format!("history?from=0&ino={ino}&vol={volume}&what=versions");
        inodes.into_iter().take(REPORTED).map(question).collect()
    }

    /// Returns a part of the content of a version.
    pub(super) fn content(
        &self,
        question: &Question,
        ino: u64,
        range: (u64, u64),
    ) -> Result<Vec<u8>, Refusal> {
        let past = self.get(question)?;
        let newest = question.number("sqnum", 0)?;
        let ino = u32::try_from(ino).map_err(|_| Refusal::bad("ino: too large"))?;
        let version = past.history.versions(ino).iter().find(|version| version.newest == newest);
        let version = version.ok_or_else(|| Refusal::missing("there is no such version"))?;
        let damaged = |error: &dyn std::fmt::Display| Refusal::damaged(error.to_string());
        let volume = question.text("vol").unwrap_or_default();
        let content = {
            let mut last = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            let contents = match &mut *last {
                Some((known, contents)) if known == volume => contents,
                last => {
                    let contents = past.contents();
                    &mut last.insert((volume.to_owned(), contents)).1
                }
            };
            contents.open(version).map_err(|error| damaged(&error))?
        };
        let (from, len) = range;
        let len = len.min(content.size().saturating_sub(from));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        if len > 0 {
            content.read(from, &mut bytes).map_err(|error| damaged(&error))?;
        }
        Ok(bytes)
    }
}
