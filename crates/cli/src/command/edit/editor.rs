//! The commands of the editor, over any writable file system.

use crate::failure::{Context, Failure};
use crate::text;
use eraseblock_base::Findings;
use eraseblock_base::size::parse_size;
use eraseblock_tree::dir::{self, ReadOptions};
use eraseblock_tree::extract::{ExtractOptions, attributes_to, to_dir};
use eraseblock_tree::put::{PutReport, into_fs, node_into_fs};
use eraseblock_vfs::{
    FileKind, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the commands are.
pub(crate) const HELP: &str = "Commands:
  put SRC DEST          copy a file or a folder's content in
  get SRC DEST          copy a file or a directory out
  ls [PATH]   cat PATH
  mkdir [-p] PATH       rm [-r] PATH...     mv FROM TO
  ln [-s] TARGET PATH   chmod OCTAL PATH    chown UID[:GID] PATH
  setfattr NAME VALUE PATH   setfattr -x NAME PATH
  truncate SIZE PATH    touch PATH          sync   check   help   quit
Words may be quoted; # begins a comment.";

/// Commands done to a file system; what they print is collected.
pub(crate) struct Editor<'a> {
    fs: &'a dyn WritableFileSystem,
    output: Vec<u8>,
    findings: Findings,
}

/// The directory part of a path and the name behind it.
fn parent(path: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let path = path.trim_ascii_end();
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let path = &path[..end];
    let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    match &path[cut..] {
        b"" => Err(Failure::new("the root has no name")),
        name => Ok((&path[..cut], name)),
    }
}

fn host(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn number<T: std::str::FromStr>(word: &[u8], what: &str) -> Result<T, Failure> {
    let text = String::from_utf8_lossy(word);
    text.parse().map_err(|_| Failure::new(format!("`{text}` is not {what}")))
}

impl<'a> Editor<'a> {
    /// An editor of a file system.
    pub(crate) fn new(fs: &'a dyn WritableFileSystem) -> Self {
        Self { fs, output: Vec::new(), findings: Findings::new() }
    }

    /// What was printed since the last call.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// What was found since the last call.
    pub(crate) fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    /// Does a command.
    pub(crate) fn run(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        match words {
            [b"help"] => Ok(writeln!(self.output, "{HELP}")?),
            [b"put", source, dest] => self.put(host(source), dest).map(drop),
            [b"get", source, dest] => self.get(source, host(dest)),
            [b"ls"] => self.list(b"/"),
            [b"ls", path] => self.list(path),
            [b"cat", path] => self.print(path),
            [b"mkdir", b"-p", path] => self.make_path(path).map(|_| ()),
            [b"mkdir", path] => self.create(path, NewKind::Directory, 0o755),
            [b"rm", b"-r", paths @ ..] => paths.iter().try_for_each(|path| self.remove(path, true)),
            [b"rm", paths @ ..] if !paths.is_empty() => {
                paths.iter().try_for_each(|path| self.remove(path, false))
            }
            [b"mv", from, to] => self.rename(from, to),
            [b"ln", b"-s", target, path] => self.create(path, NewKind::Symlink(target), 0o777),
            [b"ln", target, path] => self.link(target, path),
            [b"sync"] => Ok(self.fs.sync()?),
            [b"touch", path] => self.touch(path),
            _ => self.attributes(words),
        }
    }

    fn attributes(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let none = SetAttr::default();
        let (path, changes) = match words {
            [b"chmod", mode, path] => {
                let text = String::from_utf8_lossy(mode);
                let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o7777);
                let wrong = || Failure::new(format!("`{text}` is not an octal mode"));
                (path, SetAttr { permissions: Some(mode.ok_or_else(wrong)?), ..none })
            }
            [b"chown", owner, path] => {
                let mut ids = owner.splitn(2, |byte| *byte == b':');
                let mut id = || {
                    let word = ids.next().filter(|word| !word.is_empty());
                    word.map(|word| number(word, "a number of an owner")).transpose()
                };
                (path, SetAttr { uid: id()?, gid: id()?, ..none })
            }
            [b"truncate", size, path] => {
                let size = parse_size(&String::from_utf8_lossy(size))?;
                (path, SetAttr { size: Some(size), ..none })
            }
            [b"setfattr", b"-x", name, path] => {
                return Ok(self.fs.remove_xattr(self.find(path)?, name, now())?);
            }
            [b"setfattr", name, value, path] => {
                let ino = self.find(path)?;
                return Ok(self.fs.set_xattr(ino, name, value, XattrMode::Either, now())?);
            }
            _ => {
                let words: Vec<String> = words.iter().map(|word| text::name(word)).collect();
                let what = format!("`{}` is no command, or has other arguments", words.join(" "));
                return Err(Failure::new(what).hint("`help` lists the commands"));
            }
        };
        Ok(self.fs.set_attr(self.find(path)?, &changes, now())?)
    }

    fn find(&self, path: &[u8]) -> Result<Ino, Failure> {
        self.fs.resolve(path).context(text::name(path))
    }

    /// The directory and the name of a path; the last component need not exist.
    fn place<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8]), Failure> {
        let (dir, name) = parent(path)?;
        Ok((self.find(dir)?, name))
    }

    /// The same; in a directory of that path, the name of `source`.
    fn place_or_into<'p>(
        &self,
        path: &'p [u8],
        source: &'p [u8],
    ) -> Result<(Ino, &'p [u8]), Failure> {
        match self.fs.resolve(path) {
            Ok(ino) if self.fs.attr(ino)?.kind == FileKind::Directory => {
                Ok((ino, parent(source)?.1))
            }
            _ => self.place(path),
        }
    }

    fn create(&self, path: &[u8], kind: NewKind<'_>, permissions: u32) -> Result<(), Failure> {
        let (dir, name) = self.place(path)?;
        let inode = NewInode { kind, permissions, uid: 0, gid: 0 };
        self.fs.create(dir, name, &inode, now()).context(text::name(path))?;
        Ok(())
    }

    fn link(&self, target: &[u8], path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(target)?;
        let (dir, name) = self.place_or_into(path, target)?;
        self.fs.link(ino, dir, name, now()).context(text::name(path))
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        let old = self.place(from)?;
        let new = self.place_or_into(to, from)?;
        self.fs.rename(old, new, RenameMode::Replace, now()).context(text::name(from))
    }

    fn touch(&self, path: &[u8]) -> Result<(), Failure> {
        if let Ok(ino) = self.fs.resolve(path) {
            let times = SetAttr { atime: Some(now()), mtime: Some(now()), ..SetAttr::default() };
            return Ok(self.fs.set_attr(ino, &times, now())?);
        }
        self.create(path, NewKind::Regular, 0o644)
    }

    /// A directory, made with all above it where they are missing.
    fn make_path(&self, path: &[u8]) -> Result<Ino, Failure> {
        let mut dir = self.fs.root();
        for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
            dir = match self.fs.lookup(dir, name) {
                Err(error) if error.kind() == FsErrorKind::NotFound => {
                    let kind = NewKind::Directory;
                    let inode = NewInode { kind, permissions: 0o755, uid: 0, gid: 0 };
                    self.fs.create(dir, name, &inode, now())?
                }
                found => found.context(text::name(path))?,
            };
        }
        Ok(dir)
    }

    fn remove(&self, path: &[u8], recursive: bool) -> Result<(), Failure> {
        let (dir, name) = self.place(path)?;
        let ino = self.find(path)?;
        let is_directory = self.fs.attr(ino)?.kind == FileKind::Directory;
        if !is_directory {
            return self.fs.unlink(dir, name, now()).context(text::name(path));
        }
        if recursive {
            self.empty(ino)?;
        }
        self.fs.remove_dir(dir, name, now()).context(text::name(path))
    }

    /// Removes what is in a directory, and in those below, without recursion.
    fn empty(&self, top: Ino) -> Result<(), Failure> {
        let mut waiting = vec![(top, None)];
        while let Some((dir, place)) = waiting.pop() {
            let entries = self.fs.entries(dir)?;
            let below: Vec<_> = entries
                .iter()
                .filter(|entry| entry.kind == FileKind::Directory)
                .map(|entry| (entry.ino, Some((dir, entry.name.clone()))))
                .collect();
            for entry in entries.iter().filter(|entry| entry.kind != FileKind::Directory) {
                self.fs.unlink(dir, &entry.name, now())?;
            }
            match (below.is_empty(), place) {
                (false, place) => {
                    waiting.push((dir, place));
                    waiting.extend(below);
                }
                (true, Some((parent, name))) => self.fs.remove_dir(parent, &name, now())?,
                (true, None) => {}
            }
        }
        Ok(())
    }

    fn list(&mut self, path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(path)?;
        let attr = self.fs.attr(ino)?;
        if attr.kind != FileKind::Directory {
            return self.list_one(ino, path);
        }
        let mut entries = self.fs.entries(ino)?;
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        entries.iter().try_for_each(|entry| self.list_one(entry.ino, &entry.name))
    }

    fn list_one(&mut self, ino: Ino, name: &[u8]) -> Result<(), Failure> {
        let attr = self.fs.attr(ino)?;
        let (letter, bits) = (attr.kind.letter(), attr.permissions);
        let (links, uid, gid, size) = (attr.nlink, attr.uid, attr.gid, attr.size);
        let name = text::name(name);
        writeln!(self.output, "{letter}{bits:04o} {links:>3} {uid}:{gid} {size:>10} {name}")?;
        Ok(())
    }

    fn print(&mut self, path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(path)?;
        copy_out(self.fs, ino, &mut self.output).context(text::name(path))
    }

    /// Copies a file or a folder's content in.
    pub(crate) fn put(&mut self, source: &Path, dest: &[u8]) -> Result<PutReport, Failure> {
        let meta = source.symlink_metadata().context(source.display())?;
        let options = ReadOptions::default();
        let report = if meta.is_dir() {
            let (tree, findings) = dir::read(source, &options)?;
            self.findings.append(findings);
            into_fs(self.fs, self.make_path(dest)?, &tree, now())?
        } else {
            let (dir, name) = self.place_or_into(dest, source.as_os_str().as_bytes())?;
            let (node, findings) = dir::read_node(source, &options)?;
            self.findings.append(findings);
            node_into_fs(self.fs, dir, name, node, now())?
        };
        let files = text::count(report.files, "file", "files");
        let directories = text::count(report.directories, "directory", "directories");
        let bytes = text::count(report.bytes, "byte", "bytes");
        writeln!(self.output, "{files}, {directories}, {bytes}")?;
        Ok(report)
    }

    /// Copies a file or a directory out.
    pub(crate) fn get(&mut self, source: &[u8], dest: &Path) -> Result<(), Failure> {
        let ino = self.find(source)?;
        let options = ExtractOptions { force: true, ..ExtractOptions::default() };
        match self.fs.attr(ino)?.kind {
            FileKind::Directory => {
                let report = to_dir(self.fs, ino, dest, &options, &|_| {})?;
                self.findings.append(report.findings);
                Ok(())
            }
            FileKind::Regular => {
                let mut file = destination(dest)?;
                copy_out(self.fs, ino, &mut file).context(dest.display())?;
                if file.metadata().context(dest.display())?.is_file() {
                    let file = file.as_fd();
                    self.findings.append(attributes_to(self.fs, ino, file, source, &options)?);
                }
                Ok(())
            }
            kind => {
                let name = text::name(source);
                Err(Failure::new(format!("{name}: a single {kind:?} is not copied out")))
            }
        }
    }
}

fn copy_out(fs: &dyn WritableFileSystem, ino: Ino, to: &mut dyn Write) -> Result<(), Failure> {
    let mut buf = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        let count = fs.read(ino, at, &mut buf)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buf[..count])?;
        at += count as u64;
    }
}

/// The file of the host that is copied to, private until its attributes are set.
fn destination(path: &Path) -> Result<File, Failure> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).context(path.display())
}

/// The wall clock.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::{FileSystem as _, ModelFs};

    fn script(fs: &ModelFs, lines: &[&str]) -> Result<String, String> {
        let mut editor = Editor::new(fs);
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            editor.run(&words).map_err(|failure| failure.message().to_owned())?;
        }
        Ok(String::from_utf8(editor.take_output()).unwrap())
    }

    #[test]
    fn a_script_does_what_it_says() {
        let fs = ModelFs::default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "text").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let put = format!("put {} /a/b", folder.path().display());
        let out = folder.path().join("out");
        let get = format!("get /a {}", out.display());
        let printed = script(
            &fs,
            &[
                "mkdir -p a/b/c",
                &put,
                "ln /a/b/x /a/y",
                "ln -s target l",
                "mv a/y /a/b/c",
                "chmod 4711 a/b/x",
                "chown 7:8 a/b/x",
                "setfattr user.a 1 a/b/x",
                "truncate 2 a/b/x",
                "cat a/b/c/y",
                "touch new",
                "sync",
                &get,
                "rm l",
                "rm -r a",
                "ls",
            ],
        );
        let printed = printed.unwrap();
        assert!(printed.starts_with("1 file, 2 directories, 4 bytes\nte"), "{printed}");
        assert!(printed.ends_with(" new\n"), "{printed}");
        assert_eq!(fs.inode_count(), 2);
        assert_eq!(std::fs::read(out.join("b/x")).unwrap(), b"te");
        assert!(out.join("b/sub").is_dir());
    }

    #[test]
    fn wrong_commands_are_told() {
        let fs = ModelFs::default();
        for line in
            ["fly", "mkdir", "chmod 9 /", "chown x /", "cat /none", "rm /", "put /nonexistent /a"]
        {
            assert!(script(&fs, &[line]).is_err(), "{line}");
        }
        script(&fs, &["mkdir a", "mkdir a/b"]).unwrap();
        assert!(script(&fs, &["rm a"]).is_err());
        assert_eq!(fs.entries(1).unwrap().len(), 1);
    }
}
