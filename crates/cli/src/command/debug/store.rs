//! Where changes go: into a copy, or into the image itself after an undo file.
//!
//! # Invariants
//! 1. In place: the undo file and its name are on disk before the first byte of the image changes.
//! 2. What the undo file says is there before the change is there: nobody else writes to the image,
//!    and places that changed since they were read are refused.

use super::answer::Answers;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::observe::{Meter, Notes, Observer};
use eraseblock::raw::base::Findings;
use eraseblock::raw::census::debug::Debugger;
use eraseblock::raw::census::overlay::{Changed, Overlay};
use eraseblock::raw::census::script::Script;
use eraseblock::raw::census::undo;
use eraseblock::raw::mtd::{Access, ReadAt};
use eraseblock::target::{Place, Shape, lock};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
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
        /// Keeps everybody else away from the image.
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
    /// Locks the image if it is to be changed in place.
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
                let _lock = lock::lock(&place.path, Access::Write)?;
                Goal::InPlace { undo: undo.to_owned(), _lock }
            }
            (None, None) => Goal::Nowhere,
        };
        let start = place.at.map_or(0, |at| at.offset);
        let path = place.path.clone();
        Ok(Self { path, start, goal, written: Vec::new(), has_written: false })
    }

    /// Returns what observes the reading of an image that is locked already.
    pub(super) fn observer(&self) -> Option<Alone> {
        matches!(self.goal, Goal::InPlace { .. }).then(|| Alone(Notes::new(false)))
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

    /// Writes the undo file, then the changes, then the end of the undo file.
    fn in_place(&self, undo: &Path, changes: &[Changed]) -> Result<(), Failure> {
        let context = self.path.display();
        let file = File::options().read(true).write(true).open(&self.path).context(&context)?;
        if !file.metadata().context(&context)?.is_file() {
            return Err(Failure::new(format!("{context}: only files are changed in place")));
        }
        let head = undo::Head {
            kind: undo::Kind::File,
            size: file.metadata()?.len(),
            before: hash(&file).context(&context)?,
            records: u32::try_from(changes.len())
                .map_err(|_| Failure::new("more than 4294967295 places are changed"))?,
        };
        for change in changes {
            let mut now = vec![0; change.old.len()];
            FileExt::read_exact_at(&file, &mut now, self.start + change.offset)
                .context(&context)?;
            if now != change.old {
                let at = self.start + change.offset;
                return Err(Failure::new(format!("{context}: byte {at} has changed meanwhile")));
            }
        }
        let record = File::options().write(true).create_new(true).open(undo);
        let record = record.context(undo.display())?;
        let mut out = BufWriter::new(&record);
        let written = || -> io::Result<()> {
            undo::write_head(&mut out, &head)?;
            for change in changes {
                let place = self.start + change.offset;
                undo::write_record(&mut out, place, &change.old, &change.new)?;
            }
            out.flush()
        }();
        drop(out);
        written.and_then(|()| record.sync_all()).context(undo.display())?;
        // The name of the undo file must last, too.
        let folder = undo.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all().context(undo.display())?;
        for change in changes {
            file.write_all_at(&change.new, self.start + change.offset).context(&context)?;
        }
        file.sync_all().context(&context)?;
        let after = hash(&file).context(&context)?;
        undo::write_trailer(&mut &record, &after).context(undo.display())?;
        record.sync_all().context(undo.display())
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
        let mut alone = Alone(Notes::new(false));
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

/// Returns the SHA-256 of a file.
pub(in crate::command) fn hash(file: &File) -> io::Result<[u8; 32]> {
    let mut buffer = vec![0; CHUNK];
    let (mut hasher, mut at) = (Sha256::new(), 0);
    loop {
        let len = file.read_at(&mut buffer, at)?;
        if len == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..len]);
        at += len as u64;
    }
}

/// A file that was changed in place.
pub(in crate::command) struct InFile(pub(in crate::command) File);

impl undo::Target for InFile {
    fn read(&mut self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(&self.0, bytes, place)
    }

    fn write(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, place)
    }
}

/// Opens an undo file from its start.
pub(in crate::command) fn open_undo(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(Box::new(io::BufReader::new(fs::File::open(path)?)))
}
