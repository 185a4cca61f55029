//! A random, repeatable workload on one directory.
//!
//! # Invariants
//! 1. `dirs` and `leaves` name exactly the entries that the workload created and did not remove;
//!    `dirs[0]` is its directory.
//! 2. The generator is called in the same order for any file system that gives the same results.

use crate::content::bytes;
use crate::exotic::set_time;
use crate::rng::Rng;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags, chownat, lremovexattr,
    lsetxattr, makedev, mknodat, renameat_with,
};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The parameters of a workload.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Seed of all choices.
    pub(crate) seed: u64,
    /// Number of operations.
    pub(crate) operations: u64,
    /// Number of parts; a pause follows each.
    pub(crate) pauses: u64,
    /// Bytes of content above which it removes more than it writes.
    pub(crate) live_max: u64,
}

/// Runs the workload.
pub(crate) fn run(dir: &Path, plan: &Plan) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut work = Mutator::new(dir, plan);
    let mut lines = io::stdin().lock().lines();
    for part in 1..=plan.pauses {
        for _ in 0..plan.operations / plan.pauses {
            work.step()?;
        }
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "part {part}: {} done, {} refused, {} dirs, {} leaves, {} held",
            work.done,
            work.refused,
            work.dirs.len(),
            work.leaves.len(),
            work.held.len()
        )?;
        out.flush()?;
        if lines.next().is_none() {
            break;
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Leaf {
    path: PathBuf,
    regular: bool,
}

#[derive(Debug)]
struct Mutator {
    rng: Rng,
    dirs: Vec<PathBuf>,
    leaves: Vec<Leaf>,
    held: Vec<File>,
    live_max: u64,
    written: u64,
    names: u64,
    done: u64,
    refused: u64,
}

type Operation = fn(&mut Mutator) -> io::Result<()>;

/// Operations and their frequencies.
const OPERATIONS: [(u64, Operation); 21] = [
    (14, Mutator::create),
    (12, Mutator::write_somewhere),
    (8, Mutator::append),
    (6, Mutator::truncate),
    (4, Mutator::make_dir),
    (2, Mutator::remove_dir),
    (5, Mutator::hard_link),
    (3, Mutator::symbolic_link),
    (10, Mutator::unlink),
    (8, Mutator::rename_leaf),
    (2, Mutator::rename_dir),
    (2, Mutator::exchange),
    (3, Mutator::special),
    (6, Mutator::set_xattr),
    (3, Mutator::remove_xattr),
    (4, Mutator::change_mode),
    (4, Mutator::change_owner),
    (3, Mutator::change_time),
    (4, Mutator::sync_file),
    (3, Mutator::orphan),
    (2, Mutator::replace_atomically),
];

impl Mutator {
    fn new(dir: &Path, plan: &Plan) -> Self {
        Self {
            rng: Rng::new(plan.seed),
            dirs: vec![dir.to_path_buf()],
            leaves: Vec::new(),
            held: Vec::new(),
            live_max: plan.live_max,
            written: 0,
            names: 0,
            done: 0,
            refused: 0,
        }
    }

    fn step(&mut self) -> io::Result<()> {
        let total: u64 = OPERATIONS.iter().map(|row| row.0).sum();
        let mut ticket = self.rng.below(total);
        let mut chosen = OPERATIONS[0].1;
        for (weight, operation) in OPERATIONS {
            if ticket < weight {
                chosen = operation;
                break;
            }
            ticket -= weight;
        }
        if self.written > self.live_max {
            self.make_room()?;
        }
        match chosen(self) {
            Ok(()) => self.done += 1,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.refused += 1;
                self.make_room()?;
            }
            Err(error) if is_expected(&error) => self.refused += 1,
            Err(error) => return Err(error),
        }
        if self.rng.one_in(400) {
            rustix::fs::sync();
        }
        Ok(())
    }

    /// Removes half of the leaves and recounts.
    fn make_room(&mut self) -> io::Result<()> {
        for _ in 0..=self.leaves.len() / 2 {
            self.unlink()?;
        }
        self.held.clear();
        self.written = 0;
        for leaf in self.leaves.iter().filter(|leaf| leaf.regular) {
            self.written += fs::symlink_metadata(&leaf.path)?.len().min(64 << 10);
        }
        rustix::fs::sync();
        Ok(())
    }

    fn fresh(&mut self) -> PathBuf {
        self.names += 1;
        let dir = self.rng.index(self.dirs.len());
        let name = match self.rng.below(12) {
            0 => format!("{}-{}", "long".repeat(50), self.names),
            1 => format!("\u{fc}\u{4e2d}-{}", self.names),
            _ => format!("n{}", self.names),
        };
        self.dirs[dir].join(name)
    }

    fn leaf(&mut self) -> io::Result<Leaf> {
        if self.leaves.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let index = self.rng.index(self.leaves.len());
        Ok(self.leaves[index].clone())
    }

    fn regular(&mut self) -> io::Result<PathBuf> {
        for _ in 0..20 {
            let leaf = self.leaf()?;
            if leaf.regular {
                return Ok(leaf.path);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn any(&mut self) -> io::Result<PathBuf> {
        if self.dirs.len() > 1 && self.rng.one_in(5) {
            let index = 1 + self.rng.index(self.dirs.len() - 1);
            return Ok(self.dirs[index].clone());
        }
        Ok(self.leaf()?.path)
    }

    fn content(&mut self, max: u64) -> Vec<u8> {
        let len = self.rng.skewed(max);
        self.written += len;
        bytes(&mut self.rng, usize::try_from(len).expect("contents are small"))
    }

    fn create(&mut self) -> io::Result<()> {
        let path = self.fresh();
        let content = self.content(40_000);
        let made = fs::write(&path, content);
        if path.exists() {
            self.leaves.push(Leaf { path, regular: true });
        }
        made
    }

    fn write_somewhere(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.regular()?)?;
        let size = file.metadata()?.len();
        let far = if self.rng.one_in(8) { 200_000 } else { 1 };
        let offset = self.rng.below(size + far);
        let content = self.content(12_000);
        file.write_all_at(&content, offset)
    }

    fn append(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.regular()?)?;
        let content = self.content(6000);
        file.write_all(&content)
    }

    fn truncate(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.regular()?)?;
        let size = file.metadata()?.len();
        let length = self.rng.below(size + 1);
        file.set_len(length)?;
        if self.rng.one_in(2) {
            file.set_len(length + self.rng.skewed(20_000))?;
        }
        Ok(())
    }

    fn make_dir(&mut self) -> io::Result<()> {
        let path = self.fresh();
        fs::create_dir(&path)?;
        self.dirs.push(path);
        Ok(())
    }

    fn remove_dir(&mut self) -> io::Result<()> {
        let index = self.rng.index(self.dirs.len());
        let path = self.dirs[index].clone();
        if index == 0 {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let keep = if self.rng.one_in(2) { Some(File::open(&path)?) } else { None };
        fs::remove_dir(&path)?;
        self.dirs.swap_remove(index);
        self.held.extend(keep);
        Ok(())
    }

    fn hard_link(&mut self) -> io::Result<()> {
        let leaf = self.leaf()?;
        let path = self.fresh();
        fs::hard_link(&leaf.path, &path)?;
        self.leaves.push(Leaf { path, regular: leaf.regular });
        Ok(())
    }

    fn symbolic_link(&mut self) -> io::Result<()> {
        let path = self.fresh();
        let len = 1 + self.rng.skewed(600);
        symlink("t".repeat(usize::try_from(len).expect("a short target")), &path)?;
        self.leaves.push(Leaf { path, regular: false });
        Ok(())
    }

    fn unlink(&mut self) -> io::Result<()> {
        if self.leaves.is_empty() {
            return Ok(());
        }
        let index = self.rng.index(self.leaves.len());
        fs::remove_file(&self.leaves[index].path)?;
        self.leaves.swap_remove(index);
        Ok(())
    }

    /// Renames a leaf to a new name, or over another leaf that may be open, or leaves a whiteout.
    fn rename_leaf(&mut self) -> io::Result<()> {
        let from = self.leaf()?;
        if self.rng.one_in(3) {
            let over = self.leaf()?;
            if self.rng.one_in(3) && over.regular {
                self.held.push(File::open(&over.path)?);
            }
            let same = fs::symlink_metadata(&from.path).ok().map(|m| inode(&m))
                == fs::symlink_metadata(&over.path).ok().map(|m| inode(&m));
            fs::rename(&from.path, &over.path)?;
            if !same {
                self.forget(&from.path);
                self.forget(&over.path);
                self.leaves.push(Leaf { path: over.path, regular: from.regular });
            }
            return Ok(());
        }
        let to = self.fresh();
        if self.rng.one_in(10) {
            renameat_with(CWD, &from.path, CWD, &to, RenameFlags::WHITEOUT)?;
            self.forget(&from.path);
            self.leaves.push(Leaf { path: from.path, regular: false });
        } else {
            fs::rename(&from.path, &to)?;
            self.forget(&from.path);
        }
        self.leaves.push(Leaf { path: to, regular: from.regular });
        Ok(())
    }

    fn forget(&mut self, path: &Path) {
        self.leaves.retain(|leaf| leaf.path != path);
    }

    /// Renames a directory to a new name or over another one, which must be empty.
    fn rename_dir(&mut self) -> io::Result<()> {
        let index = self.rng.index(self.dirs.len());
        let from = self.dirs[index].clone();
        let over = self.rng.index(self.dirs.len());
        let to = if self.rng.one_in(2) { self.fresh() } else { self.dirs[over].clone() };
        if index == 0 || from == to {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        fs::rename(&from, &to)?;
        self.dirs.retain(|dir| *dir != to);
        self.moved(&from, &to);
        Ok(())
    }

    fn moved(&mut self, from: &Path, to: &Path) {
        let paths = self.dirs.iter_mut().chain(self.leaves.iter_mut().map(|leaf| &mut leaf.path));
        for path in paths {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            }
        }
    }

    fn exchange(&mut self) -> io::Result<()> {
        let (a, b) = (self.leaf()?, self.leaf()?);
        renameat_with(CWD, &a.path, CWD, &b.path, RenameFlags::EXCHANGE)?;
        for leaf in &mut self.leaves {
            if leaf.path == a.path {
                leaf.regular = b.regular;
            } else if leaf.path == b.path {
                leaf.regular = a.regular;
            }
        }
        Ok(())
    }

    fn special(&mut self) -> io::Result<()> {
        let path = self.fresh();
        let kinds =
            [FileType::CharacterDevice, FileType::BlockDevice, FileType::Fifo, FileType::Socket];
        let kind = kinds[self.rng.index(4)];
        let number = match kind {
            FileType::Fifo | FileType::Socket => 0,
            _ => self.device_number(),
        };
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), number)?;
        self.leaves.push(Leaf { path, regular: false });
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)] // the bounds are far below a u32
    fn device_number(&mut self) -> u64 {
        makedev(1 + self.rng.skewed(4000) as u32, self.rng.skewed(1_000_000) as u32)
    }

    fn set_xattr(&mut self) -> io::Result<()> {
        let path = self.any()?;
        let space = if self.rng.one_in(2) { "trusted" } else { "user" };
        let name = format!("{space}.k{}", self.rng.below(6));
        let len = self.rng.skewed(900);
        let value = bytes(&mut self.rng, usize::try_from(len).expect("a short value"));
        Ok(lsetxattr(&path, name.as_str(), &value, XattrFlags::empty())?)
    }

    fn remove_xattr(&mut self) -> io::Result<()> {
        let path = self.any()?;
        let space = if self.rng.one_in(2) { "trusted" } else { "user" };
        Ok(lremovexattr(&path, format!("{space}.k{}", self.rng.below(6)).as_str())?)
    }

    fn change_mode(&mut self) -> io::Result<()> {
        let path = self.any()?;
        let mode = u32::try_from(self.rng.below(0o10_000)).expect("twelve bits");
        if fs::symlink_metadata(&path)?.is_symlink() {
            return Err(io::ErrorKind::NotFound.into());
        }
        fs::set_permissions(&path, Permissions::from_mode(mode))
    }

    fn change_owner(&mut self) -> io::Result<()> {
        let path = self.any()?;
        let mut id = || u32::try_from(self.rng.skewed(4_000_000_000)).expect("it fits 32 bits");
        let (uid, gid) = (Uid::from_raw(id()), Gid::from_raw(id()));
        Ok(chownat(CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn change_time(&mut self) -> io::Result<()> {
        let path = self.any()?;
        let seconds = self.rng.below(5_000_000_000).cast_signed() - 1_000_000_000;
        set_time(&path, seconds, 500)
    }

    fn sync_file(&mut self) -> io::Result<()> {
        let file = File::open(self.regular()?)?;
        if self.rng.one_in(2) { file.sync_all() } else { file.sync_data() }
    }

    /// Creates a file without a name that stays open and is still written to.
    fn orphan(&mut self) -> io::Result<()> {
        if self.held.len() >= 40 {
            let index = self.rng.index(self.held.len());
            self.held.swap_remove(index);
        }
        let content = self.content(20_000);
        if self.rng.one_in(3) {
            let flags = OFlags::TMPFILE | OFlags::RDWR;
            let file = rustix::fs::open(&self.dirs[0], flags, Mode::from_raw_mode(0o600))?;
            let file = File::from(file);
            file.write_all_at(&content, 0)?;
            self.held.push(file);
            return Ok(());
        }
        let path = self.regular()?;
        let file = OpenOptions::new().write(true).open(&path)?;
        fs::remove_file(&path)?;
        self.forget(&path);
        file.write_all_at(&content, 100)?;
        self.held.push(file);
        Ok(())
    }

    /// Saves as careful programs do: write a new file, sync, rename over the old one.
    fn replace_atomically(&mut self) -> io::Result<()> {
        let target = self.regular()?;
        let beside = self.fresh();
        let content = self.content(9000);
        let mut file = File::create(&beside)?;
        self.leaves.push(Leaf { path: beside.clone(), regular: true });
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&beside, &target)?;
        self.forget(&beside);
        Ok(())
    }
}

fn inode(meta: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

fn is_expected(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let expected = [
        Errno::NOENT,
        Errno::NOTEMPTY,
        Errno::EXIST,
        Errno::INVAL,
        Errno::NODATA,
        Errno::PERM,
        Errno::NOTSUP,
        Errno::NAMETOOLONG,
        Errno::TOOBIG,
        Errno::MLINK,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::RANGE,
    ];
    match error.raw_os_error() {
        Some(code) => expected.iter().any(|errno| errno.raw_os_error() == code),
        None => true,
    }
}
