//! Creates every unusual thing that a file system may contain: one directory for each topic.

use crate::content::bytes;
use crate::rng::Rng;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, lsetxattr,
    makedev, mknodat, utimensat,
};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

/// The limits of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Maximum length of a name.
    name: usize,
    /// Maximum length of a link's target.
    target: usize,
    /// The highest owner.
    owner: u32,
    /// Seconds since 1970.
    seconds: std::ops::RangeInclusive<i64>,
}

impl Limits {
    /// The limits of UBIFS and of the file systems of hosts.
    pub(crate) const USUAL: Self =
        Self { name: 255, target: 4000, owner: u32::MAX, seconds: i64::MIN..=i64::MAX };
    /// The limits of JFFS2 (spec: jffs2 20).
    pub(crate) const JFFS2: Self =
        Self { name: 254, target: 254, owner: 0xFFFF, seconds: 0..=0xFFFF_FFFF };
}

type Theme = fn(&Path, &mut Rng, &Limits) -> io::Result<()>;

const THEMES: [(&str, Theme); 12] = [
    ("names", names),
    ("collisions", collisions),
    ("sizes", sizes),
    ("holes", holes),
    ("links", links),
    ("symlinks", symlinks),
    ("devices", devices),
    ("attributes", attributes),
    ("owners", owners),
    ("times", times),
    ("deep", deep),
    ("rewritten", rewritten),
];

/// Fills the directory, which is created if missing; `big` adds a directory of 3000 entries and
/// files above 4 GiB and 1 MiB.
pub(crate) fn fill(top: &Path, seed: u64, big: bool, limits: &Limits) -> io::Result<()> {
    fs::create_dir_all(top)?;
    let mut rng = Rng::new(seed);
    for (name, theme) in THEMES {
        make(top, name, theme, &mut rng, limits)?;
    }
    if big {
        make(top, "crowd", crowd, &mut rng, limits)?;
        make(top, "large", large, &mut rng, limits)?;
    }
    Ok(())
}

fn make(top: &Path, name: &str, theme: Theme, rng: &mut Rng, limits: &Limits) -> io::Result<()> {
    let dir = top.join(name);
    fs::create_dir(&dir)?;
    theme(&dir, rng, limits).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

fn names(dir: &Path, rng: &mut Rng, limits: &Limits) -> io::Result<()> {
    let long = [b'n'; 255];
    let mut odd_long = [0xe2, 0x82, 0xac].repeat(85);
    odd_long[254] = b'!';
    let all_bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let list: [&[u8]; 16] = [
        &long,
        &odd_long,
        &all_bytes,
        b"a",
        b"...",
        b"..a",
        b" leading and trailing ",
        b"new\nline",
        b"tab\tand\x07bell",
        b"back\\slash",
        b"gr\xc3\xbc\xc3\x9fe",
        b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
        b"\xff\xfe broken utf-8 \xc3",
        b"-rf",
        b"*?[glob]",
        b"\xf0\x9f\x92\xbe",
    ];
    for name in list {
        let len = rng.index(600);
        let name = &name[..name.len().min(limits.name)];
        fs::write(dir.join(OsStr::from_bytes(name)), bytes(rng, len))?;
    }
    fs::create_dir(dir.join(OsStr::from_bytes(&[b'd'; 255][..limits.name])))?;
    Ok(())
}

/// Returns a name whose R5 hash (spec: ubifs-format 5.2) does not depend on `choice`: `BA` and `AL`
/// contribute the same to it.
fn colliding_name(group: u64, choice: u64) -> String {
    let blocks = (0..4).map(|bit| if choice >> bit & 1 == 0 { "BA" } else { "AL" });
    format!("group{group}-{}", blocks.collect::<String>())
}

/// Creates names with equal R5 hashes; removes some of them or renames them over each other.
fn collisions(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    for group in 0..6 {
        for choice in 0..16 {
            fs::write(dir.join(colliding_name(group, choice)), bytes(rng, 40))?;
        }
        for choice in (group..16).step_by(3) {
            fs::remove_file(dir.join(colliding_name(group, choice)))?;
        }
        let (from, to) = (colliding_name(group, group + 1), colliding_name(group, group + 4));
        fs::rename(dir.join(from), dir.join(to))?;
    }
    fs::write(dir.join("table"), "all names of a group have one hash\n")?;
    let on_file = |choice| format!("user.{}", colliding_name(9, choice));
    for choice in 0..16 {
        let value = bytes(rng, 9);
        lsetxattr(dir.join("table"), on_file(choice).as_str(), &value, XattrFlags::empty())?;
    }
    Ok(rustix::fs::lremovexattr(dir.join("table"), on_file(5).as_str())?)
}

fn sizes(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    let list = [
        0, 1, 7, 8, 9, 48, 64, 127, 128, 129, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193,
        12_287, 65_536, 100_000,
    ];
    for size in list {
        fs::write(dir.join(format!("{size}")), bytes(rng, size))?;
    }
    fs::write(dir.join("zeros"), vec![0; 50_000])?;
    fs::write(dir.join("ones"), vec![0xff; 50_000])?;
    let noise: Vec<u8> = (0..5000).flat_map(|_| rng.next().to_le_bytes()).collect();
    fs::write(dir.join("noise"), noise)
}

fn holes(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    File::create(dir.join("only"))?.set_len(1_000_001)?;
    let file = File::create(dir.join("front"))?;
    file.write_all_at(&bytes(rng, 5000), 300_000)?;
    let file = File::create(dir.join("back"))?;
    file.write_all_at(&bytes(rng, 5000), 0)?;
    file.set_len(3_000_000)?;
    let file = File::create(dir.join("many"))?;
    for piece in 0..40 {
        file.write_all_at(&bytes(rng, 700), piece * 50_021)?;
    }
    let file = File::create(dir.join("cut-and-grown"))?;
    file.write_all_at(&bytes(rng, 30_000), 0)?;
    file.sync_all()?;
    for (cut, grown) in [(20_001, 25_000), (9000, 40_000), (1, 4097), (0, 10), (7, 123_456)] {
        file.set_len(cut)?;
        file.set_len(grown)?;
    }
    Ok(())
}

fn links(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    fs::create_dir(dir.join("other"))?;
    for count in 0..=10 {
        let first = dir.join(format!("f{count}"));
        fs::write(&first, bytes(rng, 200 * count))?;
        for extra in 0..count {
            let place = if extra % 2 == 0 { dir.to_path_buf() } else { dir.join("other") };
            fs::hard_link(&first, place.join(format!("f{count}-{extra}")))?;
        }
        if count % 4 == 3 {
            fs::remove_file(&first)?;
        }
    }
    node(&dir.join("pipe"), FileType::Fifo, 0)?;
    fs::hard_link(dir.join("pipe"), dir.join("pipe-again"))?;
    symlink("nowhere", dir.join("soft"))?;
    fs::hard_link(dir.join("soft"), dir.join("soft-again"))
}

fn symlinks(dir: &Path, _rng: &mut Rng, limits: &Limits) -> io::Result<()> {
    let long = [b's'; 4000];
    let list: [(&str, &[u8]); 6] = [
        ("one", b"x"),
        ("dangling", b"../no/such/file"),
        ("absolute", b"/etc/passwd"),
        ("self", b"self"),
        ("odd", b"\xff \n\\\xc3"),
        ("long", &long),
    ];
    for (name, target) in list {
        let target = &target[..target.len().min(limits.target)];
        symlink(OsStr::from_bytes(target), dir.join(name))?;
    }
    lsetxattr(dir.join("one"), "trusted.on-a-link", b"value", XattrFlags::empty())?;
    lsetxattr(dir.join("long"), "trusted.empty", b"", XattrFlags::empty())?;
    Ok(())
}

fn node(path: &Path, kind: FileType, device: u64) -> io::Result<()> {
    Ok(mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device)?)
}

fn devices(dir: &Path, _rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    for (major, minor) in
        [(0, 0), (1, 3), (4, 255), (5, 256), (255, 255), (256, 0), (4095, 1_048_575)]
    {
        let number = makedev(major, minor);
        node(&dir.join(format!("c-{major}-{minor}")), FileType::CharacterDevice, number)?;
        node(&dir.join(format!("b-{major}-{minor}")), FileType::BlockDevice, number)?;
    }
    node(&dir.join("fifo"), FileType::Fifo, 0)?;
    node(&dir.join("socket"), FileType::Socket, 0)?;
    lsetxattr(dir.join("c-1-3"), "trusted.device", b"null", XattrFlags::empty())?;
    Ok(())
}

fn attributes(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    // Some file systems of hosts store little per inode; attributes that do not fit are left out
    // there.
    let set = |name: &str, key: &str, value: &[u8]| match lsetxattr(
        dir.join(name),
        key,
        value,
        XattrFlags::empty(),
    ) {
        Err(rustix::io::Errno::NOSPC) => Ok(()),
        done => done,
    };
    for name in ["file", "many", "changed", "removed"] {
        fs::write(dir.join(name), bytes(rng, 100))?;
    }
    fs::create_dir(dir.join("dir"))?;
    set("file", "user.empty", b"")?;
    set("file", "user.large", &bytes(rng, 3800))?;
    set("file", &format!("user.{}", "k".repeat(250)), b"longest name")?;
    set("file", "trusted.secret", &[0, 1, 2, 255])?;
    set("file", "security.test", b"label\0")?;
    set("dir", "user.on-a-directory", b"yes")?;
    set("dir", "trusted.overlay.opaque", b"y")?;
    for number in 0..40 {
        set("many", &format!("user.key{number}"), &bytes(rng, number * 3))?;
    }
    for size in [10, 2000, 0, 300] {
        set("changed", "user.value", &bytes(rng, size))?;
    }
    set("removed", "user.gone", b"gone")?;
    set("removed", "user.kept", b"kept")?;
    Ok(rustix::fs::lremovexattr(dir.join("removed"), "user.gone")?)
}

fn owners(dir: &Path, _rng: &mut Rng, limits: &Limits) -> io::Result<()> {
    let list: [(u32, u32, u32); 7] = [
        (0, 0, 0o000),
        (1000, 1000, 0o644),
        (65_535, 65_534, 0o777),
        (65_536, 70_000, 0o4755),
        (4_294_967_294, 2_147_483_648, 0o2755),
        (1, 2, 0o1777),
        (3, 4, 0o7777),
    ];
    for (index, (uid, gid, mode)) in list.into_iter().enumerate() {
        for is_dir in [false, true] {
            let path = dir.join(format!("{}{index}", if is_dir { "d" } else { "f" }));
            if is_dir {
                fs::create_dir(&path)?;
            } else {
                File::create(&path)?;
            }
            let (uid, gid) = (uid.min(limits.owner), gid.min(limits.owner));
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// Sets both times of an inode, without following symbolic links.
pub(crate) fn set_time(path: &Path, seconds: i64, nanoseconds: u32) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn times(dir: &Path, _rng: &mut Rng, limits: &Limits) -> io::Result<()> {
    let list =
        [0, 1, -1, -1_000_000_000, 2_147_483_647, 2_147_483_648, 4_294_967_296, 8_589_934_592];
    for seconds in list.into_iter().filter(|time| limits.seconds.contains(time)) {
        let path = dir.join(format!("t{seconds}"));
        fs::write(&path, b"time")?;
        set_time(&path, seconds, 123_456_789)?;
    }
    symlink("t0", dir.join("link"))?;
    set_time(&dir.join("link"), 77, 0)?;
    fs::create_dir(dir.join("dir"))?;
    set_time(&dir.join("dir"), 88, 999_999_999)
}

fn deep(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    let mut at = dir.to_path_buf();
    for level in 0..60 {
        at.push(format!("level-{level}"));
        fs::create_dir(&at)?;
        if level % 7 == 0 {
            fs::write(at.join("leaf"), bytes(rng, 30))?;
        }
    }
    let mut at = dir.to_path_buf();
    for level in 0..10_u8 {
        at.push(OsStr::from_bytes(&[b'0' + level; 200]));
        fs::create_dir(&at)?;
    }
    fs::write(at.join("bottom"), b"bottom")
}

/// Creates files whose content results from many small steps.
fn rewritten(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    for round in 0..12 {
        let mut log = OpenOptions::new().append(true).create(true).open(dir.join("log"))?;
        for _ in 0..10 {
            let len = rng.index(300);
            log.write_all(&bytes(rng, len))?;
        }
        log.sync_data()?;
        let mut options = OpenOptions::new();
        let table = options.write(true).create(true).truncate(false).open(dir.join("table"))?;
        for _ in 0..20 {
            table.write_all_at(&rng.next().to_le_bytes(), rng.below(40_000))?;
        }
        if round % 4 == 0 {
            table.sync_all()?;
        }
        fs::write(dir.join("config.new"), bytes(rng, 900))?;
        File::open(dir.join("config.new"))?.sync_all()?;
        fs::rename(dir.join("config.new"), dir.join("config"))?;
    }
    Ok(())
}

fn crowd(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    for number in 0..3000 {
        let path = dir.join(format!("entry-{number}"));
        match number % 50 {
            0 => fs::create_dir(&path)?,
            1 => symlink(format!("entry-{}", number / 2), &path)?,
            2..=20 => fs::write(&path, bytes(rng, 20))?,
            _ => fs::hard_link(dir.join(format!("entry-{}", number - number % 50 + 2)), &path)?,
        }
    }
    Ok(())
}

fn large(dir: &Path, rng: &mut Rng, _limits: &Limits) -> io::Result<()> {
    fs::write(dir.join("megabyte"), bytes(rng, 1_300_000))?;
    let file = File::create(dir.join("five-gigabytes"))?;
    file.write_all_at(&bytes(rng, 10_000), 0)?;
    file.write_all_at(&bytes(rng, 10_000), 4_294_967_296 - 3000)?;
    file.write_all_at(&bytes(rng, 10_000), 5_000_000_000)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r5(name: &[u8]) -> u32 {
        let mut hash: u32 = 0;
        for &byte in name {
            let signed = i32::from(byte.cast_signed());
            hash = hash.wrapping_add((signed << 4).cast_unsigned());
            hash = hash.wrapping_add((signed >> 4).cast_unsigned()).wrapping_mul(11);
        }
        hash & 0x1fff_ffff
    }

    #[test]
    fn colliding_names_collide() {
        assert_eq!(r5(b"dir"), 0x0024_0985, "spec: ubifs-format 5.2");
        let hash = r5(colliding_name(3, 0).as_bytes());
        assert!((0..16).all(|choice| r5(colliding_name(3, choice).as_bytes()) == hash));
        assert_ne!(colliding_name(3, 1), colliding_name(3, 2));
    }
}
