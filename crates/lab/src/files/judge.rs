//! The judge: evaluates a chip after a power cut.

use super::allowed::{Allowed, Look};
use super::habit::Habit;
use super::stack::{Mounted, Rules, Stack};
use super::tree::{Contents, Tree};
use super::words;
use crate::powercut::{Broken, Judge, Trial, Verdict};
use eraseblock_mtd::Access;
use eraseblock_nandsim::{Chip, Snapshot};
use eraseblock_vfs::background::rest;
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, FsError, FsErrorKind, NewInode, NewKind, SetAttr, Timestamp,
    WritableFileSystem,
};
use std::sync::Arc;

/// What a file system may show after a cut.
#[derive(Debug)]
pub(crate) struct FilesJudge<'a> {
    pub(crate) stack: &'a dyn Stack,
    pub(crate) rules: Rules,
    pub(crate) habit: Habit,
    pub(crate) allowed: Allowed,
}

impl Judge for FilesJudge<'_> {
    fn judge<'s>(&'s self, chip: Chip, trial: &Trial<'_>) -> Verdict<'s> {
        let Self { stack, rules, habit, allowed } = self;
        Case { stack: *stack, rules, habit: *habit, allowed, trial }.judge(chip)
    }
}

/// A state to judge.
struct Case<'a> {
    stack: &'a dyn Stack,
    rules: &'a Rules,
    habit: Habit,
    allowed: &'a Allowed,
    trial: &'a Trial<'a>,
}

/// The name of the file that proves that a file system can be written to.
const PROBE: &[u8] = b"probe";

impl Case<'_> {
    fn judge<'s>(&self, chip: Chip) -> Verdict<'s> {
        let mut events = Vec::new();
        let mut came_later = false;
        let untouched = self.trial.closely.then(|| chip.snapshot());
        let chip = Arc::new(chip);
        chip.power_on();
        chip.set_recording(self.trial.keep_events);
        let mounted = self.mount(&chip, "first mount");
        if let (Some(tally), Ok(mounted)) = (self.trial.tally, &mounted) {
            mounted.met().into_iter().for_each(|what| tally.count(what));
        }
        let mounted = mounted.and_then(|mounted| settle(mounted.fs()).map(|()| mounted));
        if let Some(diary) = self.trial.diary {
            diary.keep(chip.snapshot());
        }
        let verdict = mounted.and_then(|mounted| {
            events = chip.take_recording();
            chip.set_recording(false);
            self.recovered(&chip, mounted, self.look())
        });
        let verdict = match verdict {
            Err(broken) if self.rules.decay_may_fail && self.trial.unstable => {
                came_later = true;
                self.excuse(&chip, broken)
            }
            verdict => verdict,
        };
        let verdict = verdict.and_then(|()| match untouched {
            Some(snapshot) => self.read_only(&snapshot),
            None => Ok(()),
        });
        came_later &= verdict.is_ok();
        Verdict { broken: verdict.err(), events, came_later, then: None }
    }

    fn look(&self) -> Look {
        Look { unstable: self.trial.unstable, skip_root_times: false }
    }

    /// Decaying cells may cause any operation to fail with an error, until they have decayed
    /// completely: one of the next mounts must be right.
    fn excuse(&self, chip: &Arc<Chip>, broken: Broken) -> Result<(), Broken> {
        const FAILURES: [&str; 10] = [
            "background-failed",
            "structure",
            "tree-unreadable",
            "unreadable",
            "statfs",
            "dead",
            "full",
            "unmount-failed",
            "second-mount-refused",
            "mount-refused",
        ];
        let mut verdict = Err(broken);
        for _ in 0..12 {
            match &verdict {
                Err((rule, _)) if FAILURES.contains(rule) => {}
                _ => break,
            }
            chip.power_on();
            let look = Look { skip_root_times: true, ..self.look() };
            let mounted =
                self.mount(chip, "a later mount: cells decay until they stay as they are");
            verdict = mounted.and_then(|mounted| self.recovered(chip, mounted, look));
        }
        verdict
    }

    fn mount(&self, chip: &Arc<Chip>, by: &str) -> Result<Box<dyn Mounted>, Broken> {
        self.mount_as(chip, Access::Write, by).map_err(|message| ("mount-refused", message))
    }

    fn mount_as(
        &self,
        chip: &Arc<Chip>,
        access: Access,
        by: &str,
    ) -> Result<Box<dyn Mounted>, String> {
        let (before, reads) = (chip.next_event(), chip.counters().page_reads);
        let mounted = self.stack.mount_with(chip, access, self.habit);
        if let Some(diary) = self.trial.diary {
            let events = chip.next_event() - before;
            diary.begin(by);
            let pages = chip.counters().page_reads - reads;
            diary.note([format!(
                "{pages} page reads and {events} flash events while mounting, from {before} on"
            )]);
            diary.note(mounted.as_ref().err().map(|message| format!("refused: {message}")));
        }
        mounted
    }

    /// Reads everything.
    fn read(&self, fs: &dyn FileSystem) -> Result<Tree, Broken> {
        let tree = Tree::read(fs, Contents::Read);
        if let Some(diary) = self.trial.diary {
            match &tree {
                Ok(tree) => diary.note(tree.lines()),
                Err(message) => diary.note([format!("cannot be read: {message}")]),
            }
        }
        tree.map_err(|message| ("tree-unreadable", message))
    }

    fn recovered(
        &self,
        chip: &Arc<Chip>,
        mounted: Box<dyn Mounted>,
        look: Look,
    ) -> Result<(), Broken> {
        check(mounted.as_ref())?;
        let fs = mounted.fs();
        let seen = self.read(fs)?;
        self.allowed.permits(&seen, self.rules, look)?;
        let free = free_blocks(fs)?;
        self.no_space_lost(free, "after the recovery")?;
        let is_clear = self.alive(fs, free)?;
        let before = match (look.unstable, is_clear) {
            (true, _) => None,
            (false, true) => Some(seen),
            (false, false) => Some(self.read(fs)?),
        };
        fs.unmount().map_err(|error| ("unmount-failed", error.to_string()))?;
        drop(mounted);
        self.again(chip, before, free)
    }

    /// Mounts once more: the tree must be the same except for the times of the root, and no space
    /// lost.
    fn again(&self, chip: &Arc<Chip>, before: Option<Tree>, free: u64) -> Result<(), Broken> {
        let mounted =
            self.mount_as(chip, Access::Write, "second mount, after a file was made and removed");
        let mounted = mounted.map_err(|message| ("second-mount-refused", message))?;
        if self.trial.closely {
            check(mounted.as_ref())?;
        }
        let seen = self.read(mounted.fs())?;
        let look_again = Look { skip_root_times: true, ..self.look() };
        if let Some(mut before) = before {
            before.take_root_times_of(&seen);
            if before != seen {
                return Err(("second-mount-differs", explain(&before, &seen)));
            }
        } else {
            self.allowed.permits(&seen, self.rules, look_again)?;
        }
        let mut now = free_blocks(mounted.fs())?;
        if now + self.rules.slack_blocks < free {
            // The recovery, too, was settled before: JFFS2 finds the dead nodes of inodes without a
            // name only in the background.
            settle(mounted.fs())?;
            now = free_blocks(mounted.fs())?;
        }
        if now + self.rules.slack_blocks < free {
            return Err(("space-lost", format!("{now} free blocks, {free} after the recovery")));
        }
        self.no_space_lost(now, "after the second mount")?;
        // The last step, because it changes the files.
        if look_again.unstable { Ok(()) } else { tails(mounted.fs(), &seen) }
    }

    /// Compares the free space with that before the cut.
    fn no_space_lost(&self, now: u64, when: &str) -> Result<(), Broken> {
        let least = self.allowed.history.least_free();
        if now + self.rules.cut_blocks < least {
            let message = format!("{now} free blocks {when}, at least {least} before the cut");
            return Err(("space-gone", message));
        }
        Ok(())
    }

    /// Checks that the file system can still be written to; one that says it is full may refuse.
    /// Returns whether the probe file is certainly gone again.
    fn alive(&self, fs: &dyn WritableFileSystem, free: u64) -> Result<bool, Broken> {
        match probe(fs) {
            Ok(true) => Ok(true),
            Ok(false) => Err(("dead", "what was written is not there".into())),
            Err(error)
                if error.kind() == FsErrorKind::NoSpace && free < self.rules.probe_blocks =>
            {
                Ok(false)
            }
            Err(error) if error.kind() == FsErrorKind::NoSpace => {
                Err(("full", format!("{error}, with {free} free blocks")))
            }
            Err(error) => Err(("dead", error.to_string())),
        }
    }

    /// Mounts read-only: it must show a permitted state, too, and write nothing.
    fn read_only(&self, snapshot: &Snapshot) -> Result<(), Broken> {
        let chip = Arc::new(snapshot.to_chip());
        chip.power_on();
        let before = chip.next_event();
        let mounted = self
            .mount_as(&chip, Access::Read, "read-only mount of the same state")
            .map_err(|message| ("read-only-mount-refused", message))?;
        let seen = self.read(mounted.fs())?;
        self.allowed
            .permits(&seen, self.rules, self.look())
            .map_err(|(_, message)| ("read-only-tree", message))?;
        let events = chip.next_event() - before;
        if events != 0 {
            return Err(("read-only-writes", format!("{events} flash events")));
        }
        Ok(())
    }
}

fn check(mounted: &dyn Mounted) -> Result<(), Broken> {
    mounted.check().map_err(|message| ("structure", message))
}

fn free_blocks(fs: &dyn FileSystem) -> Result<u64, Broken> {
    let counts = fs.stat_fs().map_err(|error| ("statfs", error.to_string()))?;
    if counts.blocks_free > counts.blocks || counts.blocks_available > counts.blocks_free {
        let message = format!(
            "{} blocks, {} of them free, {} available",
            counts.blocks, counts.blocks_free, counts.blocks_available
        );
        return Err(("statfs", message));
    }
    Ok(counts.blocks_available)
}

/// Performs the background work after a recovery.
fn settle(fs: &dyn WritableFileSystem) -> Result<(), Broken> {
    match rest(fs, 64) {
        Err(error) if error.kind() != FsErrorKind::NoSpace => {
            Err(("background-failed", error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Grows every file by more than a block: what lies after the old end must read as zeros.
fn tails(fs: &dyn WritableFileSystem, seen: &Tree) -> Result<(), Broken> {
    let by = &Caller::owner(Timestamp::from_seconds(2_000_001));
    for (ino, inode) in &seen.inodes {
        let flags = inode.attr.flags;
        if inode.attr.kind != FileKind::Regular || flags.immutable || flags.append {
            continue;
        }
        let old = inode.attr.size;
        let new = (old / BLOCK as u64 + 2) * BLOCK as u64;
        match fs.set_attr(*ino, &SetAttr { size: Some(new), ..SetAttr::default() }, by) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::NoSpace => return Ok(()),
            Err(error) => return Err(("dead", format!("inode {ino} does not grow: {error}"))),
        }
        let mut bytes = [0; 2 * BLOCK];
        let bytes = &mut bytes[..usize::try_from(new - old).unwrap_or(0)];
        let count = fs.read(*ino, old, bytes).map_err(|error| ("tail", error.to_string()))?;
        // Without the place first: that is many times as fast.
        let is_blank = bytes.iter().fold(0, |all, byte| all | byte) == 0;
        if !is_blank || count < bytes.len() {
            let at = bytes.iter().position(|byte| *byte != 0).unwrap_or(count);
            let message =
                format!("inode {ino} had {old} bytes; grown, byte {at} after them is not 0");
            return Err(("tail", message));
        }
    }
    Ok(())
}

/// Size of a block of data, in bytes.
const BLOCK: usize = 4096;

fn probe(fs: &dyn WritableFileSystem) -> Result<bool, FsError> {
    let by = &Caller::owner(Timestamp::from_seconds(2_000_000));
    let inode = NewInode { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    let ino = fs.create(fs.root(), PROBE, &inode, by)?;
    let data = [0x2A; 700];
    let written = fs.write(ino, 0, &data, by).and_then(|()| fs.sync_file(ino));
    let mut bytes = [0; 701];
    let result = written.and_then(|()| fs.read(ino, 0, &mut bytes));
    fs.unlink(fs.root(), PROBE, by)?;
    Ok(result? == data.len() && bytes[..data.len()] == data)
}

fn explain(before: &Tree, after: &Tree) -> String {
    if let Err(message) = after.match_names(before) {
        return message;
    }
    let changed = after.inodes.iter().find(|(ino, inode)| before.inodes.get(ino) != Some(inode));
    let Some((ino, inode)) = changed else { return "other inode numbers".into() };
    let Some(was) = before.inodes.get(ino) else { return format!("inode {ino} is new") };
    let content = if was.content == inode.content { "the same" } else { "another" };
    let (now, was) = (words::attr(&inode.attr), words::attr(&was.attr));
    format!("inode {ino} has {now}, before it had {was}; its content is {content}")
}
