//! Recordings, taken, read and replayed.

use super::*;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::{
    Caller, FileSystem, NewInode, NewKind, RenameMode, Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::ops::{self, Slots, apply, strategy};
use eraseblock_vfs_testkit::{ModelFs, ModelRules};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const FILE: NewInode<'static> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
const DIR: NewInode<'static> =
    NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };

fn by() -> Caller {
    Caller::owner(Timestamp::from_seconds(1))
}

fn model() -> ModelFs {
    ModelFs::new(ModelRules::UBIFS, Timestamp::default())
}

/// Memory that a test can look at while a recorder has it.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn recorder(fs: Arc<dyn WritableFileSystem>, out: Shared) -> Recorder<Shared> {
    Recorder::new(fs, out, Clock::new(|| 7)).unwrap()
}

fn steps(bytes: &[u8], root: &str) -> Vec<Step> {
    Reader::new(bytes, root.as_bytes()).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Paths with kinds and sizes.
fn shown(fs: &dyn FileSystem) -> BTreeMap<Vec<u8>, (Kind, u64)> {
    let mut all = BTreeMap::new();
    let mut queue = vec![(fs.root(), Vec::new())];
    while let Some((dir, path)) = queue.pop() {
        for entry in fs.entries(dir).unwrap() {
            let path = [&path, &b"/"[..], &entry.name].concat();
            let attr = fs.attr(entry.ino).unwrap();
            let kind = Kind::from(attr.kind);
            let size = if kind == Kind::File { attr.size } else { 0 };
            all.insert(path.clone(), (kind, size));
            if kind == Kind::Directory {
                queue.push((entry.ino, path));
            }
        }
    }
    all
}

fn replayed(bytes: &[u8], fs: &dyn WritableFileSystem) -> Counts {
    let mut replay = Replay::new(fs, Pace::Pauses, 1);
    for step in steps(bytes, "") {
        replay.step(&step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    replay.finish().unwrap()
}

fn replayed_in(bytes: &[u8], folder: &Path) -> Counts {
    let mut replay = FolderReplay::new(folder, 1).unwrap();
    for step in steps(bytes, "") {
        replay.step(&step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    replay.finish().unwrap()
}

/// Paths with kinds and sizes, of a directory of this machine.
fn shown_in(folder: &Path) -> BTreeMap<Vec<u8>, (Kind, u64)> {
    let mut all = BTreeMap::new();
    let mut queue = vec![(folder.to_owned(), Vec::new())];
    while let Some((dir, path)) = queue.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = [&path, &b"/"[..], entry.file_name().as_bytes()].concat();
            let found = entry.metadata().unwrap();
            let kind = match found.file_type() {
                kind if kind.is_dir() => Kind::Directory,
                kind if kind.is_file() => Kind::File,
                kind if kind.is_symlink() => Kind::Symlink,
                _ => Kind::Special,
            };
            all.insert(path.clone(), (kind, if kind == Kind::File { found.len() } else { 0 }));
            if kind == Kind::Directory {
                queue.push((entry.path(), path));
            }
        }
    }
    all
}

/// Whether an operation works without a restart.
fn is_steady(op: &ops::Op) -> bool {
    !matches!(op, ops::Op::Restart | ops::Op::SyncAndCut)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// A replay on an empty file system ends with the same names, kinds and sizes.
    #[test]
    fn a_replay_does_what_was_recorded(ops in strategy::ops(200)) {
        let ops: Vec<ops::Op> = ops.into_iter().filter(is_steady).collect();
        let (recorded, out) = (Arc::new(model()), Shared::default());
        let fs: Arc<dyn WritableFileSystem> = recorded.clone();
        let (fs, mut slots) = (recorder(fs, out.clone()), Slots::default());
        for (at, op) in (0..).zip(&ops) {
            let _ = apply(&fs, &mut slots, op, at);
        }
        fs.finish().unwrap();
        let again = model();
        replayed(&out.bytes(), &again);
        prop_assert_eq!(shown(&again), shown(&*recorded));
        let folder = tempfile::tempdir().unwrap();
        replayed_in(&out.bytes(), folder.path());
        prop_assert_eq!(shown_in(folder.path()), shown(&*recorded));
    }

    /// No changed line makes a reader panic.
    #[test]
    fn damaged_recordings_are_read_or_refused(seed: u64) {
        let mut random = SplitMix64::new(seed);
        let texts = [SAMPLE_OPS, SAMPLE_FIO, SAMPLE_STRACE];
        let mut bytes = texts[random.index(3)].as_bytes().to_vec();
        for _ in 0..=random.below(6) {
            let at = random.index(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.interesting_byte(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, *b"0<>\"(),\\9".get(random.index(9)).unwrap()),
            }
        }
        let fs = model();
        let mut replay = Replay::new(&fs, Pace::Busy, 1);
        if let Ok(reader) = Reader::new(&bytes[..], b"/d") {
            for step in reader.map_while(Result::ok).filter(is_small) {
                let _ = replay.step(&step);
            }
        }
    }
}

/// The model keeps contents in memory.
fn is_small(step: &Step) -> bool {
    match step.op {
        Op::Write { offset, len, .. } => offset.max(len) < 1 << 20,
        Op::Found { size, .. } | Op::Resize { size, .. } => size < 1 << 20,
        _ => true,
    }
}

const SAMPLE_OPS: &str = r#"{"recording":"eraseblock ops","version":1}
{"at":0,"op":"found","file":1,"path":"etc/config","kind":"file","size":900}
{"at":10,"op":"create","file":2,"dir":0,"name":"log","kind":"file","mode":420}
{"at":20,"op":"write","file":2,"offset":0,"len":300,"dense":30}
{"at":900000000,"op":"sync-file","file":2}
{"at":900000010,"op":"rename","dir":0,"name":"log","to":0,"new":{"hex":"ff6c"}}
{"at":900000020,"op":"read","file":1,"offset":0,"len":900}
"#;

#[test]
fn a_recording_in_text_is_replayed() {
    let fs = model();
    let counts = replayed(SAMPLE_OPS.as_bytes(), &fs);
    assert_eq!((counts.written, counts.read), (1200, 900));
    assert_eq!(counts.steps.values().sum::<u64>(), 6);
    let expected = [
        (&b"/\xFFl"[..], (Kind::File, 300)),
        (b"/etc", (Kind::Directory, 0)),
        (b"/etc/config", (Kind::File, 900)),
    ];
    assert_eq!(shown(&fs), expected.map(|(path, it)| (path.to_vec(), it)).into());
}

#[test]
fn a_file_without_a_name_is_used_while_it_is_open() {
    let text = r#"{"recording":"eraseblock ops","version":1}
{"at":0,"op":"create","file":1,"dir":0,"name":"a","kind":"file","mode":0}
{"at":1,"op":"open","file":1}
{"at":2,"op":"link","file":1,"dir":0,"name":"b"}
{"at":3,"op":"unlink","dir":0,"name":"b"}
{"at":4,"op":"resize","file":1,"size":70}
{"at":5,"op":"unlink","dir":0,"name":"a"}
{"at":6,"op":"write","file":1,"offset":0,"len":10,"dense":30}
{"at":7,"op":"sync-file","file":1}
{"at":8,"op":"release","file":1}
{"at":9,"op":"create-unnamed","file":2,"dir":0,"mode":384}
{"at":10,"op":"write","file":2,"offset":5,"len":10,"dense":30}
{"at":11,"op":"link","file":2,"dir":0,"name":"late"}
{"at":12,"op":"release","file":2}
{"at":13,"op":"set-attr","file":2}
{"at":14,"op":"set-attr","file":2,"mode":256}
{"at":15,"op":"sync"}
"#;
    let folder = tempfile::tempdir().unwrap();
    let counts = replayed_in(text.as_bytes(), folder.path());
    assert_eq!(counts.steps.values().sum::<u64>() + counts.unsupported, 16);
    assert_eq!(shown_in(folder.path()), [(b"/late".to_vec(), (Kind::File, 15))].into());
}

/// A recording may come from anywhere: neither a name nor a link in it leads out of the directory.
#[test]
fn a_replay_stays_in_its_directory() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("inner");
    let out = Name::new(outer.path().as_os_str().as_bytes());
    let file = |dir, name: &str| Op::Create {
        file: 9,
        dir,
        name: Name::new(name.as_bytes()),
        kind: Kind::File,
        mode: 0o600,
        target: None,
    };
    let link = |name: &str| Op::Create {
        file: 1,
        dir: 0,
        name: Name::new(name.as_bytes()),
        kind: Kind::Symlink,
        mode: 0o777,
        target: Some(out.clone()),
    };
    let found = |path: &str| Op::Found {
        file: 1,
        path: Name::new(path.as_bytes()),
        kind: Kind::File,
        size: 5,
    };
    let bad = [
        vec![file(0, "../x")],
        vec![file(0, "..")],
        vec![file(0, "")],
        vec![found("/x/../../x")],
        vec![link("out"), file(1, "x")],
        vec![link("out"), file(0, "out/x")],
        vec![link("out"), Op::Write { file: 1, offset: 0, len: 5, dense: 1 }],
        vec![file(7, "x")],
    ];
    for ops in bad {
        fs::create_dir(&inner).unwrap();
        let mut replay = FolderReplay::new(&inner, 1).unwrap();
        let steps: Vec<Step> = ops.into_iter().map(|op| Step { at: 0, thread: 0, op }).collect();
        let done: Vec<bool> = steps.iter().map(|step| replay.step(step).is_ok()).collect();
        let unsupported = replay.finish().unwrap().unsupported;
        assert!(done.last() == Some(&false) || unsupported == 1, "{steps:?}");
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 0);
    }
    fs::create_dir(&inner).unwrap();
    fs::create_dir(inner.join("lost+found")).unwrap();
    FolderReplay::new(&inner, 1).unwrap();
    fs::write(inner.join("mine"), "x").unwrap();
    let error = FolderReplay::new(&inner, 1).unwrap_err();
    assert!(error.to_string().contains("mine in it"), "{error}");
}

/// What was there before the recording is named when it is used, by the path that it has then.
#[test]
fn files_that_existed_are_named_by_their_paths() {
    let fs = Arc::new(model());
    let dir = fs.create(1, b"old", &DIR, &by()).unwrap();
    let ino = fs.create(dir, b"f", &FILE, &by()).unwrap();
    fs.write(ino, 0, &[1; 500], &by()).unwrap();
    let out = Shared::default();
    let recorded = recorder(fs.clone(), out.clone());
    recorded.lookup(1, b"old").unwrap();
    recorded.rename((1, b"old"), (1, b"new"), RenameMode::Replace, &by()).unwrap();
    let found = recorded.resolve(b"new/f").unwrap();
    assert_eq!(recorded.write_some(found, 500, &[2; 500], &by()).unwrap(), 500);
    assert!(recorded.unlink(1, b"missing", &by()).is_err());
    assert_eq!(recorded.finish().unwrap(), 4, "what failed is not recorded");
    let found = steps(&out.bytes(), "").into_iter().map(|step| step.op).collect::<Vec<_>>();
    let path = Name::new(b"new/f");
    assert_eq!(found[2], Op::Found { file: 2, path, kind: Kind::File, size: 500 });
    assert!(
        matches!(found[3], Op::Write { file: 2, offset: 500, len: 500, dense: 1..=9 }),
        "{:?}",
        found[3]
    );
    let again = model();
    replayed(&out.bytes(), &again);
    assert_eq!(shown(&again), shown(&*fs));
}

/// A disk that fills up while something is recorded.
#[derive(Debug)]
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_recording_that_cannot_be_written_stops_nothing() {
    let recorded = Recorder::new(Arc::new(model()), Full(100), Clock::new(|| 0)).unwrap();
    for name in [b"a", b"b", b"c"] {
        recorded.create(1, name, &FILE, &by()).unwrap();
    }
    assert_eq!(recorded.entries(1).unwrap().len(), 3);
    assert_eq!(recorded.finish().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn what_is_no_recording_is_refused() {
    for (text, told) in [
        ("", "neither"),
        ("hello\n", "neither"),
        ("{\"recording\":\"eraseblock ops\",\"version\":2}\n", "version 2"),
        ("fio version 1 iolog\n", "neither"),
    ] {
        let error = Reader::new(text.as_bytes(), b"").unwrap_err();
        assert!(error.to_string().contains(told), "{text}: {error}");
    }
    let header = "{\"recording\":\"eraseblock ops\",\"version\":1}\n";
    let fio = "fio version 3 iolog\n";
    let long = format!("{header}{{\"at\":0,\"op\":\"{}\"}}\n", "x".repeat(MAX_LINE));
    for (text, told) in [
        (format!("{header}{{\"at\":0,\"op\":\"explode\"}}\n"), "explode"),
        (long, "longer than"),
        (format!("{fio}0 /d/a explode\n"), "explode"),
        (format!("{fio}now /d/a add\n"), "microseconds"),
        (format!("{fio}0 /d/a write 1\n"), "offset"),
    ] {
        let mut reader = Reader::new(text.as_bytes(), b"/d").unwrap();
        let error = reader.find_map(Result::err).unwrap();
        assert_eq!(error.line, 2);
        assert!(error.to_string().contains(told), "{error}");
        assert!(reader.next().is_none());
    }
    let fs = model();
    let step = Step { at: 0, thread: 0, op: Op::Open { file: 9 } };
    let error = Replay::new(&fs, Pace::Busy, 1).step(&step).unwrap_err();
    assert!(error.to_string().contains("has not named"), "{error}");
}

/// As fio 3.33 wrote it, with a sync that has a place.
const SAMPLE_FIO: &str = "fio version 3 iolog
25 /d/f add
159 /d/f open
164 /d/f write 0 4096
100204 /d/f write 4096 4096
211835 /d/f sync 4096 0
215845 /d/f read 0 8192
320948 /other/f write 12288 4096
539875 /d/f close
";

#[test]
fn recordings_of_fio_go_in_and_out() {
    let found = steps(SAMPLE_FIO.as_bytes(), "/d/");
    assert_eq!(found.len(), 7);
    assert_eq!((found[3].at, found[4].op.name()), (100_204_000, "sync-file"));
    for (version, pause) in [(FioVersion::Three, "100204 /d/f write"), (FioVersion::Two, "wait")] {
        let mut out = Vec::new();
        let mut export = FioExport::new(&mut out, version, b"/d").unwrap();
        for step in &found {
            export.step(step).unwrap();
        }
        assert_eq!(export.finish().unwrap(), 0);
        let text = String::from_utf8(out.clone()).unwrap();
        assert!(text.contains(pause), "{text}");
        let transfers = |steps: &[Step]| {
            let is_one = |op: &Op| matches!(op, Op::Read { .. } | Op::Write { .. });
            steps.iter().map(|it| it.op.clone()).filter(is_one).collect::<Vec<_>>()
        };
        assert_eq!(transfers(&steps(&out, "/d")), transfers(&found));
    }
}

#[test]
fn fio_has_no_form_for_names() {
    let mut out = Vec::new();
    let mut export = FioExport::new(&mut out, FioVersion::Three, b"/d").unwrap();
    for step in steps(SAMPLE_OPS.as_bytes(), "") {
        export.step(&step).unwrap();
    }
    assert_eq!(export.finish().unwrap(), 1, "the rename");
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("0 /d/log write 0 300\n"), "{text}");
    assert!(text.contains("900000 /d/etc/config read 0 900\n"), "{text}");
}

/// Lines as strace 6.1 writes them.
const SAMPLE_STRACE: &str = r#"100 1795618102.466842 openat(AT_FDCWD</d>, "x", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</d/x>
100 1795618102.466973 dup2(3</d/x>, 1) = 1</d/x>
100 1795618102.467007 close(3</d/x>) = 0
100 1795618102.467032 write(1</d/x>, "hi, (\"", 6) = 6
100 1795618102.467040 write(1</d/x>, "abc"..., 100 <unfinished ...>
101 1795618102.467042 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 4</etc/passwd>
100 1795618102.467044 <... write resumed>) = 100
101 1795618102.467122 openat(AT_FDCWD</d>, "/d/y\\\303\244", O_WRONLY|O_CREAT|O_APPEND, 0600) = 4</d/y\\\303\244>
101 1795618102.467125 newfstatat(4</d/y\\\303\244>, "", {st_mode=S_IFREG|0600, st_size=0, ...}, AT_EMPTY_PATH) = 0
101 1795618102.467130 pwrite64(4</d/y\\\303\244>, "q", 1, 4096) = 1
101 1795618102.467135 write(4</d/y\\\303\244>, "q", 1) = 1
101 1795618102.467136 write(4</d/y\\\303\244>, "q", 1) = -1 ENOSPC (No space left on device)
101 1795618102.467140 fdatasync(4</d/y\\\303\244>) = 0
101 1795618102.467150 mkdir("/d/sub", 0777) = 0
101 1795618102.467160 rename("/d/x", "/d/sub/x") = 0
101 1795618102.467170 unlinkat(AT_FDCWD</d>, "old", 0) = 0
101 1795618102.467180 symlink("/d/sub/x", "/d/s") = 0
101 1795618102.467185 linkat(AT_FDCWD</d>, "sub/x", AT_FDCWD</d>, "l", 0) = 0
101 1795618102.467190 ftruncate(1</d/sub/x>, 5) = 0
101 1795618102.467192 fallocate(1</d/sub/x>, 0, 0, 4096) = 0
101 1795618102.467194 chmod("/d/l", 0400) = 0
101 1795618102.467200 +++ exited with 0 +++
100 1795618102.467946 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=101} ---
"#;

#[test]
fn the_output_of_strace_is_replayed() {
    let mut reader = Reader::new(SAMPLE_STRACE.as_bytes(), b"/d").unwrap();
    assert_eq!(reader.origin(), Origin::Strace);
    let found: Vec<Step> = reader.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(reader.left_out(), 1, "fallocate");
    let writes = found.iter().filter_map(|step| match step.op {
        Op::Write { file, offset, len, .. } => Some((step.thread, file, offset, len)),
        _ => None,
    });
    let expected = [(100, 1, 0, 6), (100, 1, 6, 100), (101, 2, 4096, 1), (101, 2, 4097, 1)];
    assert_eq!(writes.collect::<Vec<_>>(), expected);
    assert_eq!(found[0].at, 0);
    let fs = model();
    let mut replay = Replay::new(&fs, Pace::Busy, 1);
    for step in &found {
        replay.step(step).unwrap();
    }
    replay.finish().unwrap();
    let expected = [
        ("/l", (Kind::File, 5)),
        ("/s", (Kind::Symlink, 0)),
        ("/sub", (Kind::Directory, 0)),
        ("/sub/x", (Kind::File, 5)),
        ("/y\\\u{e4}", (Kind::File, 4098)),
    ];
    assert_eq!(shown(&fs), expected.map(|(path, it)| (path.as_bytes().to_vec(), it)).into());
}

/// The lines are those of blkparse(1), of an ext4 that commits.
#[test]
fn requests_to_a_block_device_are_steps() {
    let text = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   N [kjournald]
  8,0    3        3     0.000002197   697  Q  WS 223490 + 8 [kjournald]
  8,0    3        4     0.500000000   697  Q FWFS 16 + 2 [kjournald]
  8,0    0        1     0.600000000    12  Q  RA 0 + 16 [cat]
  8,0    0        2     0.700000000    12  Q   D 64 + 8 [fstrim]
  8,0    0        3     0.800000000    12  Q FWS [fsync]
  8,0    0        4     0.900000000    12  C   R 0 + 16 [0]
CPU0 (8,0):
 Reads Queued:           1,        8KiB
";
    let mut reader = Reader::new(text.as_bytes(), b"/").unwrap();
    let steps: Vec<Step> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!((reader.origin(), reader.left_out()), (Origin::Blkparse, 1));
    let found = Op::Found { file: 1, path: Name::new(b"8,0"), kind: Kind::File, size: 0 };
    let write = |offset, len| Op::Write { file: 1, offset, len, dense: 100 };
    let sync = || Op::SyncFile { file: 1 };
    let expected = [
        (2197, 697, found),
        (2197, 697, write(223_490 * 512, 4096)),
        (500_000_000, 697, sync()),
        (500_000_000, 697, write(8192, 1024)),
        (500_000_000, 697, sync()),
        (600_000_000, 12, Op::Read { file: 1, offset: 0, len: 8192 }),
        (800_000_000, 12, sync()),
    ];
    let expected = expected.map(|(at, thread, op)| Step { at, thread, op });
    assert_eq!(steps, expected);
}
