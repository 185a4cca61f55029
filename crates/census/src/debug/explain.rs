//! Why something is live or not.

use super::{Debugger, Refusal};
use crate::census::{Entry, State};
use crate::walk::What;
use eraseblock_base::field::Show;
use std::fmt::Write;

/// What a record says about itself, kept while others are looked at.
struct Subject {
    line: String,
    kind: &'static str,
    state: State,
    at: u64,
    by: Option<u64>,
    key: Option<String>,
    sqnum: Option<String>,
    leb: Option<(u32, u32, u64)>,
}

impl Subject {
    fn of(debugger: &Debugger, entry: &Entry<'_>) -> Self {
        let vid = entry.record.vid;
        Self {
            line: debugger.line(entry),
            kind: entry.kind(),
            state: entry.state,
            at: entry.record.offset,
            by: entry.by,
            key: key_of(entry),
            sqnum: entry.field(&["sqnum", "version"]),
            leb: vid.map(|vid| (vid.volume.get(), vid.leb.get(), vid.sqnum.get())),
        }
    }
}

/// Returns what identifies the thing that a structure is a version of.
fn key_of(entry: &Entry<'_>) -> Option<String> {
    match entry.kind() {
        "jffs2.inode" => entry.field(&["ino"]).map(|ino| format!("inode {ino}")),
        "jffs2.dirent" | "ubifs.dent" | "ubifs.xent" => {
            let (parent, name) = super::address::entry_name(entry)?;
            Some(format!("{} in inode {parent}", crate::value::quoted(&name)))
        }
        _ => entry.field(&["key"]),
    }
}

impl Debugger {
    pub(super) fn explain(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let at = self.address(words)?.0.at;
        let mut subject = None;
        self.at(at, &mut |entry| subject = Some(Subject::of(self, entry)))?;
        let Some(subject) = subject else { return Ok(()) };
        let _ = writeln!(out, "{}", subject.line);
        let reason = match subject.state {
            State::Live => self.why_live(&subject),
            State::Superseded => self.why_superseded(&subject)?,
            State::Deleted => self.why_deleted(&subject)?,
            State::Torn => self.why_torn(at)?,
            State::OldBlock => self.why_old_block(&subject)?,
            State::Doubtful => {
                "the file system was read by a scan, since its index is of no use: it may have been \
                 deleted"
                    .to_owned()
            }
            State::Foreign => "its block belongs to another image: image_seq differs".to_owned(),
            State::Padding => "it only fills space".to_owned(),
            State::Free => "it is erased".to_owned(),
            State::Garbage => "no structure and no file explains these bytes".to_owned(),
            State::Unknown => "nothing is known about this part of the image".to_owned(),
        };
        let _ = writeln!(out, "{}: {reason}", subject.state);
        Ok(())
    }

    fn why_live(&self, subject: &Subject) -> String {
        match (subject.by, subject.kind) {
            (Some(by), _) => format!("the node at {} refers to it", self.place(by)),
            (None, "ubifs.idx") => "the master node refers to it: it is the root".to_owned(),
            (None, "ubifs.mst") => "it is the newest master node".to_owned(),
            (None, kind) if kind.starts_with("lpt.") => {
                "the tree of LEB properties from the master node leads to it".to_owned()
            }
            (None, "ubifs.ref" | "ubifs.cs") => "it is newer than the last commit".to_owned(),
            (None, kind) if kind.starts_with("jffs2.") => {
                "no node with a higher version replaces it".to_owned()
            }
            (None, kind) if kind.starts_with("ubi.") => "its block is in use".to_owned(),
            (None, _) if subject.key.is_some() => {
                "it is in the journal since the last commit, and nothing newer has its key"
                    .to_owned()
            }
            _ => "a mount sees it".to_owned(),
        }
    }

    /// Returns the first live entry that fits, as a line.
    fn live(&self, fits: &dyn Fn(&Entry<'_>) -> bool) -> Result<Option<String>, Refusal> {
        let mut found = None;
        self.census()?.walk(&mut |entry| {
            if found.is_none() && entry.state == State::Live && fits(entry) {
                found = Some(self.line(entry));
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn why_superseded(&self, subject: &Subject) -> Result<String, Refusal> {
        let fits = |entry: &Entry<'_>| {
            entry.kind() == subject.kind
                && entry.record.offset != subject.at
                && subject.key.as_ref().is_none_or(|key| key_of(entry).as_ref() == Some(key))
        };
        let winner = self.live(&fits)?;
        let own = subject.sqnum.as_ref().map_or(String::new(), |own| format!(" (it has {own})"));
        Ok(match winner {
            Some(line) => format!("this one is newer{own}: {line}"),
            None => "something newer took its place, and the index does not lead to it".to_owned(),
        })
    }

    fn why_deleted(&self, subject: &Subject) -> Result<String, Refusal> {
        let Some(key) = &subject.key else {
            return Ok("it is a deletion that a commit has carried out".to_owned());
        };
        let mut last = None;
        self.census()?.walk(&mut |entry| {
            let is_deletion = entry.field(&["inum", "nlink"]).is_some_and(|value| value == "0")
                || (entry.kind() == "jffs2.dirent"
                    && entry.field(&["ino"]).is_some_and(|ino| ino == "0"));
            if is_deletion && key_of(entry).as_ref() == Some(key) {
                last = Some(self.line(entry));
            }
            Ok(())
        })?;
        Ok(match last {
            Some(line) => format!("this deletion covers it: {line}"),
            None => format!("the file system has no {key} any more, and no trace of the deletion"),
        })
    }

    fn why_torn(&self, at: u64) -> Result<String, Refusal> {
        let found = self.record(at)?;
        let Some((fields, kind, own)) = self.structure(&found) else {
            return Ok("it is damaged".to_owned());
        };
        let structure = &fields.structures()[kind];
        let sums = structure.head.iter().filter(|part| part.field.show == Show::Sum);
        let wrong = sums.filter_map(|part| {
            let stored = structure.number(&part.label, own);
            let computed = fields.sum(kind, &part.label, own);
            (stored != computed)
                .then(|| format!("{} is {stored:#010x}, computed {computed:#010x}", part.label))
        });
        Ok(wrong.collect::<Vec<_>>().join(", "))
    }

    fn why_old_block(&self, subject: &Subject) -> Result<String, Refusal> {
        let Some((volume, leb, sqnum)) = subject.leb else {
            return Ok("its block belongs to no LEB".to_owned());
        };
        let holder = self.live(&|entry| {
            let is_vid = matches!(entry.record.what, What::Structure { .. });
            is_vid
                && entry.kind() == "ubi.vid"
                && entry
                    .record
                    .vid
                    .is_some_and(|vid| (vid.volume.get(), vid.leb.get()) == (volume, leb))
        })?;
        Ok(match holder {
            Some(line) => format!(
                "LEB {leb} of volume {volume} is in another block (this one has sequence number \
                 {sqnum}): {line}"
            ),
            None => format!("LEB {leb} of volume {volume} is in no block: it is not in the table"),
        })
    }
}
