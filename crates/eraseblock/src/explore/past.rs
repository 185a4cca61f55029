//! Commits, versions and deleted names.

use super::later::Later;
use super::{Found, ROWS, Volumes, answered, failed};
use crate::documents::past::{CommitReport, DeletedReport, VersionReport};
use crate::observe::Notes;
use crate::target::past::{self, Past};
use eraseblock_explore::{Question, Refusal};
use eraseblock_history::content::Contents;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The pasts of the volumes.
#[derive(Debug)]
pub(super) struct Pasts {
    volumes: Volumes,
    known: Mutex<BTreeMap<String, Later<Past>>>,
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
        Self { volumes, known: Mutex::default() }
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
            let read = past::read_place(&place, &shape, &mut Notes::new(false));
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
        let content = Contents::new(Arc::clone(&past.device)).open(version);
        let content = content.map_err(|error| damaged(&error))?;
        let (from, len) = range;
        let len = len.min(content.size().saturating_sub(from));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        if len > 0 {
            content.read(from, &mut bytes).map_err(|error| damaged(&error))?;
        }
        Ok(bytes)
    }
}
