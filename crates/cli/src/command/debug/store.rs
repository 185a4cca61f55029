//! Where changes go: into a copy, or into the image itself after an undo file.
//!
//! # Invariants
//! 1. In place: the undo file and its name are on disk before the first byte of the image changes.
//! 2. What the undo file says is there before the change is there: the image is locked for writing,
//!    and places that changed since they were read are refused.

use super::answer::Answers;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::observe::{Meter, Notes, Observer};
use eraseblock::raw::base::Findings;
use eraseblock::raw::census::debug::Debugger;
use eraseblock::raw::census::overlay::{Changed, Overlay};
use eraseblock::raw::census::script::Script;
use eraseblock::raw::mtd::{Access, ReadAt};
use eraseblock::raw::repair::undo;
use eraseblock::target::{Place, Shape, lock};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes copied or hashed at a time.
const CHUNK: usize = 1 << 20;

/// Where changes go.
enum Goal {
    Nowhere,
    Copy(PathBuf),
    InPlace {
        undo: PathBuf,
        /// Held as long as the image may be written to.
        _lock: File,
    },
}

/// Writes changes.
pub(super) struct Store {
    path: PathBuf,
    /// Where in the file the image begins.
    start: u64,
    goal: Goal,
    written: Vec<Changed>,
    has_written: bool,
}

/// An observer of a file that this run has locked for itself.
pub(super) struct Alone(Notes);

impl Observer for Alone {
    fn report(&mut self, findings: Findings) {
        self.0.report(findings);
    }

    fn keep_still(&mut self, _: &Path) -> eraseblock::Result<()> {
        Ok(())
    }

    fn is_strict(&self) -> bool {
        self.0.is_strict()
    }

    fn progress(&self, total: u64, what: &'static str) -> Box<dyn Meter> {
        self.0.progress(total, what)
    }
}

impl Store {
    /// Locks an image that will be changed in place.
    pub(super) fn new(
        place: &Place,
        output: Option<&Path>,
        undo: Option<&Path>,
    ) -> Result<Self, Failure> {
        let goal = match (output, undo) {
            (Some(path), _) => Goal::Copy(path.to_owned()),
            (None, Some(undo)) => {
                if undo.exists() {
                    let message = format!("{}: exists already", undo.display());
                    return Err(Failure::new(message).hint("name a new undo file"));
                }
                let lock = lock::lock(&place.path, Access::Write)?;
                Goal::InPlace { undo: undo.to_owned(), _lock: lock }
            }
            (None, None) => Goal::Nowhere,
        };
        let start = place.at.map_or(0, |at| at.offset);
        let path = place.path.clone();
        Ok(Self { path, start, goal, written: Vec::new(), has_written: false })
    }

    /// Returns what observes the reading of an image that is locked already.
    pub(super) fn observer(&self) -> Option<Alone> {
        matches!(self.goal, Goal::InPlace { .. }).then(|| Alone(Notes::default()))
    }

    /// Returns whether something was written.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Writes the changes.
    pub(super) fn write(
        &mut self,
        debugger: &Debugger,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let changes = debugger.changes().context(self.path.display())?;
        match &self.goal {
            Goal::Nowhere => {
                let message = "nothing says where to: `-o FILE` writes a copy, `-w --undo FILE` \
                               the image itself";
                return Err(Failure::usage(message));
            }
            Goal::Copy(path) => copy(debugger.image(), path, session)?,
            Goal::InPlace { .. } if self.has_written => {
                let message = "this session has written its undo file: begin another one";
                return Err(Failure::new(message));
            }
            Goal::InPlace { .. } if changes.is_empty() => return Ok(()),
            Goal::InPlace { undo, .. } => self.in_place(undo, &changes)?,
        }
        (self.written, self.has_written) = (changes, true);
        Ok(())
    }

    /// Writes changes that are not written yet, if something says where to.
    pub(super) fn write_rest(
        &mut self,
        debugger: &Debugger,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let is_new = !self.has_written || self.written != debugger.changes()?;
        match self.goal {
            Goal::Nowhere => self.warn_of_rest(debugger, session),
            _ if is_new => self.write(debugger, session),
            _ => Ok(()),
        }
    }

    /// Says that changes were not written.
    pub(super) fn warn_of_rest(
        &self,
        debugger: &Debugger,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if debugger.changes()? != self.written {
            session.advise(["the changes were not written".to_owned()]);
        }
        Ok(())
    }

    /// Makes a copy with the changes in the image's folder, then the image like the copy.
    fn in_place(&self, undo: &Path, changes: &[Changed]) -> Result<(), Failure> {
        let context = self.path.display();
        let file = File::options().read(true).write(true).open(&self.path).context(&context)?;
        if !file.metadata().context(&context)?.is_file() {
            return Err(Failure::new(format!("{context}: only files are changed in place")));
        }
        let copy = tempfile::NamedTempFile::new_in(folder(&self.path)).context(&context)?;
        fs::copy(&self.path, copy.path()).context(&context)?;
        for change in changes {
            let at = self.start + change.offset;
            let mut now = vec![0; change.old.len()];
            FileExt::read_exact_at(copy.as_file(), &mut now, at).context(&context)?;
            if now != change.old {
                return Err(Failure::new(format!("{context}: byte {at} has changed meanwhile")));
            }
            copy.as_file().write_all_at(&change.new, at).context(&context)?;
        }
        undo::replace(&file, copy.as_file(), undo).context(&context)?;
        Ok(())
    }

    /// Compares what `check` names in the written image with what a script expects.
    pub(super) fn judge(
        &self,
        path: &Path,
        script: &Script,
        answers: &mut Answers,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if script.expected.is_empty() {
            return Ok(());
        }
        let name = path.display().to_string();
        let target = match &self.goal {
            Goal::Copy(path) if path.as_os_str() != "-" => path.clone(),
            Goal::InPlace { .. } => self.path.clone(),
            _ => {
                let difference = "not judged: only a written image is checked".to_owned();
                return answers.judged(name, vec![difference], session);
            }
        };
        let place = Place { path: target, at: None, volume: None };
        let mut alone = Alone(Notes::default());
        let differences =
            match eraseblock::target::check_place(&place, &Shape::default(), &mut alone) {
                Ok(report) => script.judge(report.findings()),
                Err(error) => vec![format!("check failed: {}", error.message())],
            };
        if !differences.is_empty() {
            session.differs();
        }
        answers.judged(name, differences, session)
    }
}

/// Writes a copy with the changes; stretches of zeros become holes.
fn copy(image: &Overlay, path: &Path, session: &mut Session) -> Result<(), Failure> {
    let output = session.create(path)?;
    let size = image.size()?;
    let is_sparse = output.is_new();
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    let mut file = &output.file;
    while at < size {
        let len = usize::try_from(size - at).map_or(CHUNK, |left| left.min(CHUNK));
        let chunk = &mut buffer[..len];
        image.read_exact_at(chunk, at)?;
        if !is_sparse {
            file.write_all(chunk).context(path.display())?;
        } else if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(chunk, at).context(path.display())?;
        }
        at += len as u64;
    }
    if is_sparse {
        file.set_len(size).context(path.display())?;
    }
    output.commit()
}

/// Returns the folder that a file is in.
fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
