//! Everyday use: unpacks a tree, builds a program, uses a database, synchronises directories and
//! clones a repository, all inside the mount.

use super::mounts::Kind;
use super::score::Score;
use super::{Extent, installed, sqlite};
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

pub(super) fn run(kind: Kind, work: &Path, dir: &Path, extent: Extent<'_>) -> Result<Score> {
    let is_full = extent.is_full;
    untar(kind, work, dir, extent.kernel).context("untar")?;
    build(dir).context("building a program")?;
    sqlite::run(work, dir, if is_full { 50_000 } else { 2_000 }).context("sqlite3")?;
    // The longest name: JFFS2 has a byte less.
    let longest = if kind == Kind::Jffs2 { 254 } else { 255 };
    synchronise(work, dir, is_full, longest).context("rsync")?;
    clone(dir, is_full).context("git")?;
    let unit = "works: tar, make, sqlite3, rsync and git".to_owned();
    Ok(Score::passed("day", kind, 5, unit))
}

/// Returns the tree to copy: this repository's sources.
fn sources(is_full: bool) -> Vec<&'static str> {
    if is_full { vec!["crates", "docs", "xtask", "fuzz"] } else { vec!["docs", "crates/fuse"] }
}

/// Unpacks a kernel tree, if there is one, otherwise this repository's documents. JFFS2 gets the
/// part of the kernel that fits its chip.
fn untar(kind: Kind, work: &Path, dir: &Path, kernel: Option<&Path>) -> Result<()> {
    let archive = work.join("sources.tar");
    let (root, names) = match (kernel, kind) {
        (Some(tree), Kind::Jffs2) => (tree.to_owned(), &["kernel", "mm", "lib", "crypto"][..]),
        (Some(tree), _) => (tree.to_owned(), &["."][..]),
        (None, _) => (repository(), &["docs", "crates/fuse"][..]),
    };
    output(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).args(names))?;
    let place = dir.join("untar");
    fs::create_dir_all(&place)?;
    output(Command::new("tar").arg("-C").arg(&place).arg("-xf").arg(&archive))?;
    for name in names {
        let mut diff = Command::new("diff");
        output(diff.args(["-r", "--no-dereference"]).args([root.join(name), place.join(name)]))?;
    }
    fs::remove_file(&archive)?;
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
    // The times are consistent: nothing remains to be built.
    let again = output(Command::new("make").arg("-q").arg("-C").arg(&place));
    again.context("make builds again what it has built")?;
    Ok(())
}

/// Synchronises everything that rsync supports, in both directions.
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
        // Sizes of directories differ between file systems; everything else is itemised.
        let differences = rsync(from, to, &["--checksum", "--delete", "-n", "-i"])?;
        ensure!(differences.is_empty(), "after rsync: {differences}");
    }
    output(Command::new("rm").arg("-rf").args([&from, &inside, &back]))?;
    Ok(())
}

/// Creates rare names, links, ACLs and attributes.
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
    let mut setfacl = Command::new(installed("setfacl")?);
    output(setfacl.args(["-m", "u:1234:rw"]).arg(dir.join("listed")))?;
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
