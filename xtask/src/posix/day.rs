//! A user's day: a tree is unpacked, a program built, a database used, folders synchronised and a
//! repository cloned, all inside the mount.

use super::installed;
use super::mounts::Kind;
use crate::command::{output, repository};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A program of two files and a Makefile.
const MAKEFILE: &str = "hello: main.o greet.o\n\t$(CC) -o $@ $^\nclean:\n\trm -f *.o hello\n";
const MAIN_C: &str = "const char *greet(void);\nint puts(const char *);\n\
                      int main(void) { return puts(greet()) < 0; }\n";
const GREET_C: &str = "const char *greet(void) { return \"hello flash\"; }\n";

/// What the database is made to do.
const SQL: &str = "PRAGMA journal_mode=WAL;
CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
  INSERT INTO t SELECT i, 'row ' || i, randomblob(100) FROM n;
CREATE INDEX by_a ON t(a);
BEGIN; UPDATE t SET a = a || '!' WHERE id % 3 = 0; COMMIT;
DELETE FROM t WHERE id % 7 = 0;
PRAGMA wal_checkpoint(TRUNCATE);
VACUUM;
PRAGMA integrity_check;
SELECT count(*) FROM t;
";

pub(super) fn run(kind: Kind, work: &Path, dir: &Path, is_full: bool) -> Result<()> {
    untar(work, dir, is_full).context("untar")?;
    build(dir).context("building a program")?;
    database(dir, if is_full { 50_000 } else { 2_000 }).context("sqlite3")?;
    // The longest name: JFFS2 has a byte less.
    let longest = if kind == Kind::Jffs2 { 254 } else { 255 };
    synchronise(work, dir, is_full, longest).context("rsync")?;
    clone(dir, is_full).context("git")?;
    println!("a user's day on {}: tar, make, sqlite3, rsync and git agree", kind.name());
    Ok(())
}

/// The tree that is moved around: this repository's sources.
fn sources(is_full: bool) -> Vec<&'static str> {
    if is_full { vec!["crates", "docs", "xtask", "fuzz"] } else { vec!["docs", "crates/fuse"] }
}

fn untar(work: &Path, dir: &Path, is_full: bool) -> Result<()> {
    let archive = work.join("sources.tar");
    let root = repository();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&root).arg("-cf").arg(&archive).arg("--exclude=target");
    output(tar.args(sources(is_full)))?;
    let place = dir.join("untar");
    fs::create_dir_all(&place)?;
    output(Command::new("tar").arg("-C").arg(&place).arg("-xf").arg(&archive))?;
    for name in sources(is_full) {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--exclude=target"]).arg(root.join(name)).arg(place.join(name));
        output(&mut diff)?;
    }
    output(Command::new("rm").arg("-rf").arg(&place))?;
    Ok(())
}

fn build(dir: &Path) -> Result<()> {
    let place = dir.join("program");
    fs::create_dir_all(&place)?;
    for (name, text) in [("Makefile", MAKEFILE), ("main.c", MAIN_C), ("greet.c", GREET_C)] {
        fs::write(place.join(name), text)?;
    }
    output(Command::new("make").arg("-s").arg("-C").arg(&place))?;
    let said = output(&mut Command::new(place.join("hello")))?;
    ensure!(said == "hello flash\n", "the program says {said}");
    // Times agree with each other: there is nothing left to do.
    let again = output(Command::new("make").arg("-q").arg("-C").arg(&place));
    again.context("make builds again what it has built")?;
    Ok(())
}

fn database(dir: &Path, rows: u32) -> Result<()> {
    let place = dir.join("database");
    let sql = SQL.replace("ROWS", &rows.to_string());
    let said = output(Command::new(installed("sqlite3")?).arg(&place).arg(sql))?;
    let left = rows - rows / 7;
    ensure!(said.contains("wal") && said.contains("ok"), "sqlite3 says {said}");
    ensure!(said.trim_end().ends_with(&left.to_string()), "sqlite3 says {said}");
    let check = "PRAGMA integrity_check;";
    let said = output(Command::new(installed("sqlite3")?).arg(&place).arg(check))?;
    ensure!(said.trim() == "ok", "sqlite3 says {said}");
    Ok(())
}

/// Everything rsync can carry, in and out again.
fn synchronise(work: &Path, dir: &Path, is_full: bool, longest: usize) -> Result<()> {
    let (from, inside, back) =
        (work.join("rsync-from"), dir.join("rsync"), work.join("rsync-back"));
    for place in [&from, &back] {
        let _ = fs::remove_dir_all(place);
        fs::create_dir_all(place)?;
    }
    let root = repository();
    for name in sources(is_full) {
        output(Command::new("cp").arg("-a").arg(root.join(name)).arg(&from))?;
    }
    odd_ones(&from, longest)?;
    let rsync = |from: &Path, to: &Path, options: &[&str]| {
        let mut command = Command::new(installed("rsync")?);
        command.arg("-aHAX").args(options).arg(from.join("")).arg(to.join(""));
        output(&mut command)
    };
    fs::create_dir_all(&inside)?;
    rsync(&from, &inside, &[])?;
    rsync(&inside, &back, &[])?;
    for (from, to) in [(&from, &inside), (&inside, &back), (&from, &back)] {
        // Directories' sizes are each file system's own; everything else is itemised.
        let differences = rsync(from, to, &["--checksum", "--delete", "-n", "-i"])?;
        ensure!(differences.is_empty(), "after rsync: {differences}");
    }
    output(Command::new("rm").arg("-rf").args([&from, &inside, &back]))?;
    Ok(())
}

/// Names, links, lists and attributes that seldom occur.
fn odd_ones(dir: &Path, longest: usize) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"not \xFF text \x01");
    fs::write(dir.join(odd), "odd")?;
    fs::write(dir.join("n".repeat(longest)), "long")?;
    fs::hard_link(dir.join(odd), dir.join("twin"))?;
    std::os::unix::fs::symlink("nowhere", dir.join("dangling"))?;
    output(Command::new("mkfifo").arg(dir.join("fifo")))?;
    fs::write(dir.join("listed"), "acl")?;
    output(Command::new("setfattr").args(["-n", "user.note", "-v", "x"]).arg(dir.join("listed")))?;
    if let Some(setfacl) = crate::command::find_program("setfacl") {
        output(Command::new(setfacl).args(["-m", "u:1234:rw"]).arg(dir.join("listed")))?;
    }
    output(Command::new("truncate").args(["-s", "10M"]).arg(dir.join("sparse")))?;
    Ok(())
}

fn clone(dir: &Path, is_full: bool) -> Result<()> {
    let (first, second) = (dir.join("repository"), dir.join("clone"));
    let git = |place: &Path, words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-C"]).arg(place).args(words);
        output(&mut command)
    };
    fs::create_dir_all(&first)?;
    git(&first, &["init", "-q"])?;
    for name in sources(is_full) {
        output(Command::new("cp").arg("-a").arg(repository().join(name)).arg(&first))?;
        git(&first, &["add", "."])?;
        git(&first, &["commit", "-q", "-m", name])?;
    }
    git(dir, &["clone", "-q", "--no-local", "repository", "clone"])?;
    for place in [&first, &second] {
        git(place, &["fsck", "--full", "--strict"])?;
        let status = git(place, &["status", "--porcelain"])?;
        ensure!(status.is_empty(), "git status: {status}");
    }
    git(&second, &["gc", "-q", "--aggressive"])?;
    git(&second, &["fsck", "--full"])?;
    Ok(())
}
