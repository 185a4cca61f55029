//! A volume that a random workload used, and a model that knows every state of it.

use eraseblock_history::content::Contents;
use eraseblock_history::{Class, History, Seen, Version};
use eraseblock_mtd::{LebDevice, LebImage};
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, Ubifs, UbifsMount};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{
    Caller, FileSystem, FsError, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, SourceTree,
    Timestamp, WritableFileSystem,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

const LEB: u32 = 15_872;
const MIN_IO: u32 = 512;
/// Names that the workload uses.
const NAMES: u64 = 12;

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Contents and names of all files.
pub(crate) type State = BTreeMap<u32, (Vec<u8>, BTreeSet<Vec<u8>>)>;

/// A volume, and its states.
pub(crate) struct Known {
    pub(crate) device: Arc<dyn LebDevice>,
    /// The states that commits left, as far as they are known.
    pub(crate) commits: HashMap<u64, State>,
    /// The state at the end.
    pub(crate) now: State,
    /// Every content that an inode had after an operation.
    pub(crate) ever: HashMap<u32, Vec<Vec<u8>>>,
    _file: tempfile::NamedTempFile,
}

/// The number of the last commit.
fn last_commit(device: &Arc<dyn LebDevice>) -> u64 {
    Ubifs::commits(Arc::clone(device)).unwrap().last().unwrap().number
}

fn empty(lebs: u32) -> (Arc<dyn LebDevice>, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let image = LebImage::open(file.path(), LEB, MIN_IO, lebs).unwrap();
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options = MkfsOptions::new(LEB, MIN_IO, lebs);
    let tree = SourceTree::new(root);
    mkfs::build(&tree, &options, &mut DeviceSink(&image), &NoProgress).unwrap();
    (Arc::new(image), file)
}

impl Known {
    /// Runs `count` operations on a volume of `lebs` LEBs.
    pub(crate) fn new(seed: u64, lebs: u32, count: u64) -> Self {
        let mut random = Random(seed);
        let (device, file) = empty(lebs);
        let mount = UbifsMount::mount(Arc::clone(&device), MountOptions::default()).unwrap().0;
        let mut worker =
            Worker { fs: mount, state: State::new(), ever: HashMap::new(), time: 1_000_000 };
        let mut commits = HashMap::new();
        for _ in 0..count {
            match worker.operation(&mut random) {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => worker.read_back(),
                Err(error) => panic!("seed {seed}: {error}"),
            }
            if random.below(4) == 0 {
                worker.sync_one(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            if random.below(9) == 0 {
                worker.fs.sync().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                commits.insert(last_commit(&device), worker.state.clone());
            }
        }
        worker.fs.unmount().unwrap();
        let Worker { state, ever, .. } = worker;
        Self { device, commits, now: state, ever, _file: file }
    }
}

struct Worker {
    fs: UbifsMount,
    state: State,
    ever: HashMap<u32, Vec<Vec<u8>>>,
    time: i64,
}

impl Worker {
    fn operation(&mut self, random: &mut Random) -> Result<(), FsError> {
        self.time += 60;
        let by = &Caller::owner(Timestamp::from_seconds(self.time));
        let name = format!("file-{}", random.below(NAMES)).into_bytes();
        let known = self.state.iter().find(|(_, (_, names))| names.contains(&name));
        let Some(ino) = known.map(|(ino, _)| *ino) else {
            let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 };
            let ino = self.fs.create(1, &name, &inode, by)?;
            let ino = u32::try_from(ino).unwrap();
            self.state.insert(ino, (Vec::new(), BTreeSet::from([name])));
            return self.write(ino, random, by);
        };
        match random.below(9) {
            8 => self.link(ino, random, by)?,
            0 => {
                self.fs.unlink(1, &name, by)?;
                self.forget(ino, &name);
            }
            1 => {
                let other = format!("file-{}", random.below(NAMES)).into_bytes();
                self.rename(ino, &name, &other, by)?;
            }
            2 => {
                let len = self.state[&ino].0.len() as u64;
                let size = random.below(len + 1);
                let changes = SetAttr { size: Some(size), ..SetAttr::default() };
                self.fs.set_attr(ino.into(), &changes, by)?;
                self.content(ino).truncate(usize::try_from(size).unwrap());
            }
            _ => self.write(ino, random, by)?,
        }
        self.note(ino);
        Ok(())
    }

    /// Writes the content of one file to the flash, without a commit.
    fn sync_one(&self, random: &mut Random) -> Result<(), FsError> {
        let at = usize::try_from(random.below(NAMES)).unwrap();
        self.state.keys().nth(at).map_or(Ok(()), |ino| self.fs.sync_file((*ino).into()))
    }

    fn link(&mut self, ino: u32, random: &mut Random, by: &Caller) -> Result<(), FsError> {
        let name = format!("file-{}", random.below(NAMES)).into_bytes();
        if self.state.values().any(|(_, names)| names.contains(&name)) {
            return Ok(());
        }
        self.fs.link(ino.into(), 1, &name, by)?;
        self.state.get_mut(&ino).unwrap().1.insert(name);
        Ok(())
    }

    fn rename(&mut self, ino: u32, from: &[u8], to: &[u8], by: &Caller) -> Result<(), FsError> {
        let replaced = self.state.iter().find(|(_, (_, names))| names.contains(to));
        let replaced = replaced.map(|(other, _)| *other);
        if replaced == Some(ino) {
            return Ok(());
        }
        self.fs.rename((1, from), (1, to), RenameMode::Replace, by)?;
        if let Some(other) = replaced {
            self.forget(other, to);
        }
        let names = &mut self.state.get_mut(&ino).unwrap().1;
        names.remove(from);
        names.insert(to.to_vec());
        Ok(())
    }

    fn write(&mut self, ino: u32, random: &mut Random, by: &Caller) -> Result<(), FsError> {
        let len = self.state[&ino].0.len() as u64;
        let offset = random.below(len.min(40_000) + 3000);
        let word = random.next();
        let data: Vec<u8> = (0..=random.below(9000))
            .map(|at| Random(word ^ (at / 3)).next().to_le_bytes()[0])
            .collect();
        self.fs.write(ino.into(), offset, &data, by)?;
        let content = self.content(ino);
        let start = usize::try_from(offset).unwrap();
        content.resize(content.len().max(start + data.len()), 0);
        content[start..start + data.len()].copy_from_slice(&data);
        self.note(ino);
        Ok(())
    }

    fn content(&mut self, ino: u32) -> &mut Vec<u8> {
        &mut self.state.get_mut(&ino).unwrap().0
    }

    fn forget(&mut self, ino: u32, name: &[u8]) {
        let names = &mut self.state.get_mut(&ino).unwrap().1;
        names.remove(name);
        if names.is_empty() {
            self.state.remove(&ino);
        }
    }

    fn note(&mut self, ino: u32) {
        let Some((content, _)) = self.state.get(&ino) else { return };
        self.ever.entry(ino).or_default().push(content.clone());
    }

    /// Takes the contents from the file system: an operation without space has done a part of its work.
    fn read_back(&mut self) {
        for ino in self.state.keys().copied().collect::<Vec<u32>>() {
            let size = self.fs.attr(ino.into()).unwrap().size;
            let mut content = vec![0; usize::try_from(size).unwrap()];
            let len = self.fs.read(ino.into(), 0, &mut content).unwrap();
            assert_eq!(len, content.len());
            *self.content(ino) = content;
            self.note(ino);
        }
    }
}

/// What a comparison counted.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) live: u64,
    /// Proven versions of commits whose state is known.
    pub(crate) proven: u64,
    /// Those of other commits, which the journal made necessary.
    pub(crate) unknown: u64,
    /// Consistent versions with content.
    pub(crate) consistent: u64,
    /// Those of them that the file never had.
    pub(crate) consistent_wrong: u64,
    /// Consistent and likely versions without content, which cannot be wrong.
    pub(crate) empty: u64,
    /// Likely versions with content.
    pub(crate) likely: u64,
    /// Likely versions that the file never had.
    pub(crate) likely_wrong: u64,
    pub(crate) partial: u64,
    /// Versions whose own names are gone.
    pub(crate) unnamed: u64,
    pub(crate) whole_commits: u64,
    pub(crate) commits: u64,
    pub(crate) deleted: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.live += other.live;
        self.proven += other.proven;
        self.unknown += other.unknown;
        self.consistent += other.consistent;
        self.consistent_wrong += other.consistent_wrong;
        self.empty += other.empty;
        self.likely += other.likely;
        self.likely_wrong += other.likely_wrong;
        self.partial += other.partial;
        self.unnamed += other.unnamed;
        self.whole_commits += other.whole_commits;
        self.commits += other.commits;
        self.deleted += other.deleted;
    }
}

/// Reads the past of a volume and compares it with what is known.
///
/// # Errors
///
/// Fails if a proven version, or one of the present, is not what the file was.
pub(crate) fn compare(known: &Known) -> Result<Counts, String> {
    let history = History::read(&known.device, &mut |_| {}).map_err(|error| error.to_string())?;
    let mut contents = Contents::new(Arc::clone(&known.device));
    let mut counts = Counts {
        commits: history.commits().len() as u64,
        whole_commits: history.commits().iter().filter(|commit| commit.is_whole()).count() as u64,
        deleted: history.deleted().len() as u64,
        ..Counts::default()
    };
    for version in history.all().filter(|version| version.ino != 1) {
        one(known, version, &mut contents, &mut counts)?;
    }
    let live = history.all().filter(|version| version.class == Class::Live && version.ino != 1);
    if live.count() != known.now.len() {
        return Err("other files are there".to_owned());
    }
    Ok(counts)
}

fn one(
    known: &Known,
    version: &Version,
    contents: &mut Contents,
    counts: &mut Counts,
) -> Result<(), String> {
    let what = || format!("inode {}, {:?}, {:?}", version.ino, version.class, version.seen);
    let mut read = || -> Result<Vec<u8>, String> {
        let content = contents.open(version).map_err(|error| format!("{}: {error}", what()))?;
        let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
        content.read(0, &mut bytes).map_err(|error| format!("{}: {error}", what()))?;
        Ok(bytes)
    };
    let (state, is_named) = match (version.class, version.seen) {
        (Class::Live, _) => {
            counts.live += 1;
            (&known.now, true)
        }
        (Class::Proven, Seen::Commits { first, last }) => {
            let states = [last, first].map(|commit| known.commits.get(&commit));
            let Some(state) = states.into_iter().flatten().next() else {
                counts.unknown += 1;
                return Ok(());
            };
            counts.proven += 1;
            // Names may change while inode and content stay; they are those of the last commit.
            (state, states[0].is_some())
        }
        (Class::Consistent | Class::Likely, _) => {
            let bytes = read()?;
            let ever = known.ever.get(&version.ino);
            let is_right = ever.is_some_and(|all| all.contains(&bytes));
            let (all, wrong) = if version.class == Class::Consistent {
                (&mut counts.consistent, &mut counts.consistent_wrong)
            } else {
                (&mut counts.likely, &mut counts.likely_wrong)
            };
            if bytes.is_empty() {
                counts.empty += 1;
            } else {
                *all += 1;
                *wrong += u64::from(!is_right);
            }
            return Ok(());
        }
        _ => {
            counts.partial += 1;
            return Ok(());
        }
    };
    let Some((content, names)) = state.get(&version.ino) else {
        return Err(format!("{}: there was no such file", what()));
    };
    let found = read()?;
    if found != *content {
        let at = found.iter().zip(content).position(|(one, other)| one != other);
        let (is, was) = (found.len(), content.len());
        return Err(format!("{}: {is} bytes, {was} expected, differs at {at:?}", what()));
    }
    if version.is_named_by_another || !is_named {
        counts.unnamed += 1;
        return Ok(());
    }
    let paths: BTreeSet<Vec<u8>> = version.paths.iter().cloned().collect();
    if paths.is_subset(names) && (paths.len() == names.len() || version.class == Class::Proven) {
        return Ok(());
    }
    Err(format!("{}: the names were others", what()))
}
