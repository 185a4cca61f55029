//! Extraction of a directory tree from a file system to a directory of the host: contents, modes,
//! owners, times, xattrs, hard links, symlinks, devices, fifos and sockets.
//!
//! # Invariants
//! 1. Nothing is ever created, changed or read outside the destination, regardless of the names in
//!    the image and of the content of the destination (`place`).
//! 2. Anything that could not be delivered is a finding; an extracted file is complete, unless
//!    damaged ones were requested.
//! 3. Files are written in parallel; result and findings do not depend on that.

pub(crate) mod copy;
mod place;
#[cfg(test)]
mod tests;

use crate::codes;
use crate::error::TreeError;
use copy::{CHUNK, CopyError, Damage};
use eraseblock_base::{Code, Finding, Findings, Location, Severity};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino};
use place::{Dir, Force, Handle, Name};
use rayon::prelude::*;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether to set the owners of the image on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Owners {
    /// If the process runs as root.
    #[default]
    IfRoot,
    /// Always; a refusal of the host is a finding.
    Keep,
    /// Never; set-id bits are then dropped, too.
    Skip,
}

/// Options of an extraction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// Extract into a directory that is not empty, and replace existing entries (but never a
    /// directory by anything else).
    pub force: bool,
    /// Device and inode numbers of files that are never replaced: the image that is read.
    pub kept: Vec<(u64, u64)>,
    /// Owners of the files.
    pub owners: Owners,
    /// Set xattrs.
    pub xattrs: bool,
    /// Write files that cannot be read completely, with zeros in place of missing data.
    pub keep_damaged: bool,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            force: false,
            kept: Vec::new(),
            owners: Owners::IfRoot,
            xattrs: true,
            keep_damaged: false,
        }
    }
}

impl ExtractOptions {
    /// Sets [`Self::force`].
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets [`Self::kept`].
    #[must_use]
    pub fn kept(mut self, files: Vec<(u64, u64)>) -> Self {
        self.kept = files;
        self
    }

    /// Sets [`Self::owners`].
    #[must_use]
    pub fn owners(mut self, owners: Owners) -> Self {
        self.owners = owners;
        self
    }

    /// Sets [`Self::xattrs`].
    #[must_use]
    pub fn xattrs(mut self, xattrs: bool) -> Self {
        self.xattrs = xattrs;
        self
    }

    /// Sets [`Self::keep_damaged`].
    #[must_use]
    pub fn keep_damaged(mut self, keep_damaged: bool) -> Self {
        self.keep_damaged = keep_damaged;
        self
    }

    fn replaces(&self) -> Force<'_> {
        self.force.then_some(self.kept.as_slice())
    }
}

/// The result of an extraction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ExtractReport {
    /// Regular files.
    pub files: u64,
    /// Directories, the top included.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, fifos and sockets.
    pub specials: u64,
    /// Further names of files that have several.
    pub hard_links: u64,
    /// Lengths of the regular files in bytes, holes included.
    pub bytes: u64,
    /// Names that could not be delivered.
    pub left_out: u64,
    /// Files written with zeros in place of unreadable data.
    pub damaged: u64,
    /// All findings.
    pub findings: Findings,
}

/// Progress of an extraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Completed names that are not directories.
    pub entries: u64,
    /// Completed bytes of regular files.
    pub bytes: u64,
}

/// Extracts the tree of directory `top` to `dest`, which is created if missing and gets the
/// attributes of `top`. `progress` is called from several threads, after each file.
///
/// # Errors
///
/// Fails if `top` is not a readable directory, if `dest` cannot be created, or is not empty while
/// [`ExtractOptions::force`] is off, or if the disk of `dest` is full or can no longer be written
/// to. Everything else is a finding. After an error, the files extracted so far remain.
pub fn to_dir(
    fs: &dyn FileSystem,
    top: Ino,
    dest: &Path,
    options: &ExtractOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<ExtractReport, TreeError> {
    let attr = fs.attr(top)?;
    if attr.kind != FileKind::Directory {
        let message = format!("inode {top} is not a directory");
        return Err(FsError::new(FsErrorKind::NotADirectory, message).into());
    }
    let failed = |error: Errno| TreeError::host("make or open", dest, error);
    let (dir, is_occupied) = Dir::destination(dest).map_err(failed)?;
    if is_occupied && !options.force {
        return Err(TreeError::DestinationNotEmpty { path: dest.to_owned() });
    }
    let worker = Worker::new(fs, options, progress);
    let keep_owners = worker.keep_owners;
    let dest = Arc::new(Folder { dir, path: Vec::new(), attr });
    let mut extraction = Extraction {
        worker,
        levels: vec![Arc::clone(&dest)],
        dest,
        batch: Batch::default(),
        entered: HashSet::from([top]),
        links: HashMap::new(),
        report: ExtractReport::default(),
        remarks: Remarks::default(),
    };
    walk(fs, top, &mut |visit| extraction.visit(&visit))?;
    extraction.finish(keep_owners)
}

/// Sets the attributes of inode `ino`, of any kind but a symbolic link, on an open file of the
/// host. `path` is its name in the image, for the findings: each attribute that could not be set is
/// one.
///
/// # Errors
///
/// Fails if the inode cannot be read.
pub fn attributes_to(
    fs: &dyn FileSystem,
    ino: Ino,
    file: BorrowedFd<'_>,
    path: &[u8],
    options: &ExtractOptions,
) -> Result<Findings, TreeError> {
    let worker = Worker::new(fs, options, &|_| {});
    let mut outcome = Outcome::default();
    worker.set_attributes(&Handle::Open(file), &fs.attr(ino)?, path, &mut outcome);
    let mut findings = Findings::new();
    outcome.findings.into_iter().for_each(|finding| findings.push(finding));
    outcome.remarks.report(worker.keep_owners, &mut findings);
    Ok(findings)
}

/// A directory that is being filled.
struct Folder {
    dir: Dir,
    path: Vec<u8>,
    attr: Attr,
}

/// A name that is not a directory.
struct Job {
    folder: Arc<Folder>,
    name: Name,
    path: Vec<u8>,
    ino: Ino,
}

/// Work collected by the walk and done in parallel.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    /// Directories that get no more entries: their attributes are set after the jobs.
    complete: Vec<Arc<Folder>>,
    /// Directories opened since the last batch.
    opened: usize,
}

impl Batch {
    const MAX_JOBS: usize = 2048;
    /// Every open directory uses a file descriptor.
    const MAX_OPENED: usize = 200;

    fn is_full(&self) -> bool {
        self.jobs.len() >= Self::MAX_JOBS || self.opened >= Self::MAX_OPENED
    }
}

/// Remarks that would repeat for every file, counted instead.
#[derive(Default)]
struct Remarks {
    refused_xattrs: u64,
    first_refused_xattr: Option<String>,
    dropped_set_id: u64,
}

impl Remarks {
    /// Reports the counts.
    fn report(&self, keep_owners: bool, findings: &mut Findings) {
        if !keep_owners {
            let message = "owners are not kept: this requires root";
            findings.note(Location::Whole, "owners-not-kept", message);
        }
        if self.dropped_set_id > 0 {
            let count = self.dropped_set_id;
            let message = format!("set-id bits of {count} files dropped, as owners are not kept");
            findings.note(Location::Whole, "set-id-dropped", message);
        }
        if let Some(first) = &self.first_refused_xattr {
            let count = self.refused_xattrs;
            let message = format!("{count} extended attributes were refused; first {first}");
            findings.warn(Location::Whole, "xattrs-refused", message);
        }
    }

    fn append(&mut self, other: Self) {
        self.refused_xattrs += other.refused_xattrs;
        self.dropped_set_id += other.dropped_set_id;
        if self.first_refused_xattr.is_none() {
            self.first_refused_xattr = other.first_refused_xattr;
        }
    }
}

/// The result of one entry.
#[derive(Default)]
struct Outcome {
    /// The kind of file created.
    made: Option<FileKind>,
    bytes: u64,
    is_damaged: bool,
    findings: Vec<Finding>,
    remarks: Remarks,
}

impl Outcome {
    fn say(&mut self, severity: Severity, ino: Ino, code: impl Into<Code>, message: String) {
        let code = code.into();
        self.findings.push(Finding { severity, at: Location::Inode(ino), code, message });
    }

    fn refused(&mut self, ino: Ino, path: &[u8], what: &str, code: impl Into<Code>, error: Errno) {
        let message = format!("{}: {what} could not be set: {error}", shown(path));
        self.say(Severity::Warning, ino, code, message);
    }
}

struct Extraction<'a> {
    worker: Worker<'a>,
    dest: Arc<Folder>,
    /// The directories from the destination to the current one.
    levels: Vec<Arc<Folder>>,
    batch: Batch,
    /// Directories already visited: a damaged image that names one twice must not multiply it.
    entered: HashSet<Ino>,
    /// The first name of an inode with several names, or `None` if it could not be created.
    links: HashMap<Ino, Option<Vec<u8>>>,
    report: ExtractReport,
    remarks: Remarks,
}

impl Extraction<'_> {
    fn visit(&mut self, visit: &Visit<'_>) -> Result<Descend, TreeError> {
        match visit {
            Visit::Entry { path, entry } => self.entry(path, entry),
            Visit::Unreadable { path, error } => {
                let ino = self.levels.last().map_or(0, |folder| folder.attr.ino);
                let message = format!("{}: cannot be listed completely: {error}", shown(path));
                self.report.findings.error(
                    Location::Inode(ino),
                    codes::DIRECTORY_UNREADABLE,
                    message,
                );
                Ok(Descend::No)
            }
        }
    }

    fn entry(&mut self, path: &[u8], entry: &DirEntry) -> Result<Descend, TreeError> {
        // Every name in this path was checked, so the slashes give the depth.
        let above = &path[..path.len() - entry.name.len()];
        let depth = above.split(|byte| *byte == b'/').count() - 1;
        while self.levels.len() > depth + 1 {
            self.batch.complete.extend(self.levels.pop());
        }
        if self.batch.is_full() {
            self.run_batch()?;
        }
        let folder = Arc::clone(self.levels.last().unwrap_or(&self.dest));
        let name = match Name::new(&entry.name) {
            Ok(name) => name,
            Err(reason) => return Ok(self.leave_out(entry.ino, path, "unsafe-name", &reason)),
        };
        if entry.kind == FileKind::Directory {
            let descend = self.enter(&folder, &name, path, entry.ino);
            return self.worker.verdict().map(|()| descend);
        }
        self.batch.jobs.push(Job { folder, name, path: path.to_vec(), ino: entry.ino });
        Ok(Descend::No)
    }

    fn enter(&mut self, folder: &Folder, name: &Name, path: &[u8], ino: Ino) -> Descend {
        let attr = match self.worker.fs.attr(ino) {
            Ok(attr) if attr.kind == FileKind::Directory => attr,
            Ok(attr) => {
                let reason = format!("its entry is a directory, its inode {:?}", attr.kind);
                return self.leave_out(ino, path, "kind-mismatch", &reason);
            }
            Err(error) => {
                return self.leave_out(ino, path, codes::INODE_UNREADABLE, &error.to_string());
            }
        };
        if !self.entered.insert(ino) {
            let reason = "the directory has a second name";
            return self.leave_out(ino, path, "directory-named-twice", reason);
        }
        match folder.dir.make_dir(name, self.worker.options.replaces()) {
            Ok(dir) => {
                self.batch.opened += 1;
                self.levels.push(Arc::new(Folder { dir, path: path.to_vec(), attr }));
                Descend::Yes
            }
            Err(error) => {
                let (code, reason) = self.worker.host_refused(path, error);
                self.leave_out(ino, path, code, &reason)
            }
        }
    }

    fn leave_out(&mut self, ino: Ino, path: &[u8], code: impl Into<Code>, reason: &str) -> Descend {
        let message = format!("{}: left out: {reason}", shown(path));
        self.report.findings.error(Location::Inode(ino), code, message);
        self.report.left_out += 1;
        Descend::No
    }

    fn run_batch(&mut self) -> Result<(), TreeError> {
        let Batch { jobs, complete, .. } = std::mem::take(&mut self.batch);
        let fs = self.worker.fs;
        let attrs: Vec<_> = jobs.par_iter().with_min_len(16).map(|job| fs.attr(job.ino)).collect();
        // The first name of an inode creates it; the others become links to it afterwards.
        let is_further = |links: &mut HashMap<Ino, _>, job: &Job, attr: &Attr| {
            if attr.nlink < 2 || attr.kind == FileKind::Directory {
                return false;
            }
            let known = links.contains_key(&job.ino);
            if !known {
                links.insert(job.ino, Some(job.path.clone()));
            }
            known
        };
        let further: Vec<bool> = (jobs.iter().zip(&attrs))
            .map(|(job, attr)| attr.as_ref().is_ok_and(|a| is_further(&mut self.links, job, a)))
            .collect();
        let worker = &self.worker;
        let made: Vec<Option<Outcome>> = (&jobs, attrs, &further)
            .into_par_iter()
            .with_max_len(8)
            .map_init(
                || vec![0; CHUNK],
                |buf, (job, attr, further)| (!further).then(|| worker.make(job, attr, buf)),
            )
            .collect();
        for (job, outcome) in jobs.iter().zip(made) {
            match outcome {
                Some(outcome) => self.take(job, outcome),
                None => self.link(job),
            }
        }
        self.worker.verdict()?;
        self.report.directories += complete.len() as u64;
        let finished: Vec<_> =
            complete.par_iter().map(|folder| self.worker.complete(folder)).collect();
        for outcome in finished {
            self.take_remarks(outcome);
        }
        Ok(())
    }

    fn take(&mut self, job: &Job, outcome: Outcome) {
        match outcome.made {
            Some(FileKind::Regular) => self.report.files += 1,
            Some(FileKind::Symlink) => self.report.symlinks += 1,
            Some(_) => self.report.specials += 1,
            None => {
                self.report.left_out += 1;
                if let Some(first) = self.links.get_mut(&job.ino) {
                    *first = None;
                }
            }
        }
        self.report.bytes += outcome.bytes;
        self.report.damaged += u64::from(outcome.is_damaged);
        self.take_remarks(outcome);
    }

    fn take_remarks(&mut self, outcome: Outcome) {
        for finding in outcome.findings {
            self.report.findings.push(finding);
        }
        self.remarks.append(outcome.remarks);
    }

    /// Creates a further name of an inode.
    fn link(&mut self, job: &Job) {
        let Some(Some(first)) = self.links.get(&job.ino) else {
            self.leave_out(job.ino, &job.path, "link-left-out", "its first name was left out");
            return;
        };
        match link_to(&self.dest.dir, first, job, self.worker.options.replaces()) {
            Ok(()) => self.report.hard_links += 1,
            Err(reason) => {
                self.leave_out(job.ino, &job.path, "host-refused", &reason);
            }
        }
        self.worker.advance(0);
    }

    fn finish(mut self, keep_owners: bool) -> Result<ExtractReport, TreeError> {
        while let Some(folder) = self.levels.pop() {
            self.batch.complete.push(folder);
        }
        self.run_batch()?;
        self.remarks.report(keep_owners, &mut self.report.findings);
        Ok(self.report)
    }
}

/// Links `job` to the file at path `first`, reached from the destination without following links.
fn link_to(dest: &Dir, first: &[u8], job: &Job, force: Force<'_>) -> Result<(), String> {
    let mut parts: Vec<&[u8]> = first.split(|byte| *byte == b'/').collect();
    let old = Name::new(parts.pop().unwrap_or_default())?;
    let mut opened: Option<Dir> = None;
    for part in parts {
        let from = opened.as_ref().unwrap_or(dest);
        let next = from.open_dir(&Name::new(part)?).map_err(|error| error.to_string())?;
        opened = Some(next);
    }
    let from = opened.as_ref().unwrap_or(dest);
    job.folder.dir.make_link(&job.name, from, &old, force).map_err(|error| error.to_string())
}

/// The parallel part.
struct Worker<'a> {
    fs: &'a dyn FileSystem,
    options: &'a ExtractOptions,
    keep_owners: bool,
    progress: &'a (dyn Fn(Progress) + Sync),
    done: (AtomicU64, AtomicU64),
    /// The path and error at which the destination accepted no more data.
    stopped: OnceLock<(Vec<u8>, Errno)>,
}

impl<'a> Worker<'a> {
    fn new(
        fs: &'a dyn FileSystem,
        options: &'a ExtractOptions,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Self {
        let keep_owners = match options.owners {
            Owners::IfRoot => rustix::process::geteuid().is_root(),
            Owners::Keep => true,
            Owners::Skip => false,
        };
        let done = (AtomicU64::new(0), AtomicU64::new(0));
        Self { fs, options, keep_owners, progress, done, stopped: OnceLock::new() }
    }

    /// Records an error of the host. An error that would affect every further file ends the run.
    fn host_refused(&self, path: &[u8], error: Errno) -> (&'static str, String) {
        if matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::ROFS) {
            // Only the first of several threads sets it.
            let _ = self.stopped.set((path.to_vec(), error));
        }
        ("host-refused", error.to_string())
    }

    /// Fails if the destination accepts no more data.
    fn verdict(&self) -> Result<(), TreeError> {
        self.stopped.get().map_or(Ok(()), |(path, error)| {
            Err(TreeError::host("extract", Path::new(OsStr::from_bytes(path)), *error))
        })
    }

    fn advance(&self, bytes: u64) {
        let entries = self.done.0.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.done.1.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.progress)(Progress { entries, bytes });
    }

    /// Creates one entry that is not a directory.
    fn make(&self, job: &Job, attr: Result<Attr, FsError>, buf: &mut [u8]) -> Outcome {
        let mut outcome = Outcome::default();
        if self.stopped.get().is_some() {
            return outcome;
        }
        let attr = match attr {
            Ok(attr) => attr,
            Err(error) => {
                let message = format!("{}: left out: {error}", shown(&job.path));
                outcome.say(Severity::Error, job.ino, codes::INODE_UNREADABLE, message);
                return outcome;
            }
        };
        let made = match attr.kind {
            FileKind::Regular => self.make_file(job, &attr, buf, &mut outcome),
            FileKind::Symlink => self.make_symlink(job, &attr, &mut outcome),
            FileKind::Directory => Err((
                "kind-mismatch",
                "its entry is not a directory, but its inode is one".to_owned(),
            )),
            kind => {
                let dir = &job.folder.dir;
                match dir.make_node(&job.name, kind, attr.rdev, self.options.replaces()) {
                    Ok(()) => {
                        let handle = dir.entry(&job.name);
                        self.set_attributes(&handle, &attr, &job.path, &mut outcome);
                        Ok(())
                    }
                    Err(error) => Err(self.host_refused(&job.path, error)),
                }
            }
        };
        match made {
            Ok(()) => outcome.made = Some(attr.kind),
            Err((code, reason)) => {
                let message = format!("{}: left out: {reason}", shown(&job.path));
                outcome.say(Severity::Error, job.ino, code, message);
            }
        }
        self.advance(outcome.bytes);
        outcome
    }

    fn make_file(
        &self,
        job: &Job,
        attr: &Attr,
        buf: &mut [u8],
        outcome: &mut Outcome,
    ) -> Result<(), (&'static str, String)> {
        let dir = &job.folder.dir;
        let file = dir.make_file(&job.name, self.options.replaces());
        let file = file.map_err(|error| self.host_refused(&job.path, error))?;
        let keep = self.options.keep_damaged;
        let damage = match copy::copy(self.fs, attr.ino, attr.size, &file, keep, buf) {
            Ok(damage) => damage,
            Err(error) => {
                // The incomplete file must not remain.
                let removed = dir.remove(&job.name);
                let (code, reason) = match error {
                    CopyError::Read(error) => ("file-unreadable", error.to_string()),
                    CopyError::Write(error) => match Errno::from_io_error(&error) {
                        Some(error) => self.host_refused(&job.path, error),
                        None => ("host-refused", error.to_string()),
                    },
                };
                return Err(match removed {
                    Ok(()) => (code, reason),
                    Err(error) => (code, format!("{reason}; a part of it remains: {error}")),
                });
            }
        };
        if !damage.is_empty() {
            outcome.is_damaged = true;
            let message = format!("{}: {}", shown(&job.path), describe(&damage));
            outcome.say(Severity::Error, job.ino, "file-damaged", message);
        }
        outcome.bytes = attr.size;
        self.set_attributes(&Handle::Open(file.as_fd()), attr, &job.path, outcome);
        Ok(())
    }

    fn make_symlink(
        &self,
        job: &Job,
        attr: &Attr,
        outcome: &mut Outcome,
    ) -> Result<(), (&'static str, String)> {
        let target =
            self.fs.read_link(attr.ino).map_err(|error| ("file-unreadable", error.to_string()))?;
        let dir = &job.folder.dir;
        let made = dir.make_symlink(&job.name, &target, self.options.replaces());
        made.map_err(|error| self.host_refused(&job.path, error))?;
        self.set_attributes(&dir.entry(&job.name), attr, &job.path, outcome);
        Ok(())
    }

    /// Sets the attributes of a directory that gets no more entries.
    fn complete(&self, folder: &Folder) -> Outcome {
        let mut outcome = Outcome::default();
        self.set_attributes(&folder.dir.this(), &folder.attr, &folder.path, &mut outcome);
        outcome
    }

    /// Owner first, because changing it drops set-id bits and capabilities; times last.
    fn set_attributes(&self, handle: &Handle<'_>, attr: &Attr, path: &[u8], outcome: &mut Outcome) {
        let mut permissions = attr.permissions & 0o7777;
        let mut has_owner = self.keep_owners;
        if self.keep_owners
            && let Err(error) = handle.set_owner(attr.uid, attr.gid)
        {
            outcome.refused(attr.ino, path, "owner", "owner-not-set", error);
            has_owner = false;
        }
        if !has_owner && attr.kind != FileKind::Directory && permissions & 0o6000 != 0 {
            permissions &= 0o1777;
            outcome.remarks.dropped_set_id += 1;
        }
        if self.options.xattrs {
            self.set_xattrs(handle, attr.ino, path, outcome);
        }
        if attr.kind != FileKind::Symlink
            && let Err(error) = handle.set_mode(permissions)
        {
            outcome.refused(attr.ino, path, "mode", "mode-not-set", error);
        }
        if let Err(error) = handle.set_times(attr.atime, attr.mtime) {
            outcome.refused(attr.ino, path, "times", "times-not-set", error);
        }
    }

    fn set_xattrs(&self, handle: &Handle<'_>, ino: Ino, path: &[u8], outcome: &mut Outcome) {
        let names = match self.fs.list_xattrs(ino) {
            Ok(names) => names,
            Err(error) => {
                let message = format!("{}: attributes cannot be listed: {error}", shown(path));
                return outcome.say(Severity::Error, ino, "xattr-unreadable", message);
            }
        };
        for name in names {
            let attribute = String::from_utf8_lossy(&name);
            match self.fs.xattr(ino, &name) {
                Ok(value) => {
                    if let Err(error) = handle.set_xattr(&name, &value) {
                        let first = &mut outcome.remarks.first_refused_xattr;
                        first.get_or_insert_with(|| {
                            format!("`{attribute}` of {}: {error}", shown(path))
                        });
                        outcome.remarks.refused_xattrs += 1;
                    }
                }
                Err(error) => {
                    let message =
                        format!("{}: attribute `{attribute}` left out: {error}", shown(path));
                    outcome.say(Severity::Error, ino, "xattr-unreadable", message);
                }
            }
        }
    }
}

/// Returns a path of the image for messages: control characters escaped, `/` for the top.
pub(crate) fn shown(path: &[u8]) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    let text = String::from_utf8_lossy(path);
    text.chars()
        .flat_map(|c| -> Box<dyn Iterator<Item = char>> {
            if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) }
        })
        .collect()
}

/// Describes the missing bytes.
pub(crate) fn describe(damage: &Damage) -> String {
    const SHOWN: usize = 16;
    let ranges: Vec<String> =
        damage.iter().take(SHOWN).map(|(start, end)| format!("{start}..{end}")).collect();
    let more = damage.len().saturating_sub(SHOWN);
    let and = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    format!("bytes {}{and} could not be read and are zeros", ranges.join(", "))
}
