//! The commands of the editor, over any writable file system.

mod copy;
mod host;
mod mode;

pub(crate) use host::copied_line;

use crate::entry::long_lines;
use crate::failure::{Context, Failure};
use crate::find::find_path;
use crate::inputs::Inputs;
use crate::style::Style;
use eraseblock::documents::listing::Entry;
use eraseblock::raw::base::Findings;
use eraseblock::raw::base::size::parse_size;
use eraseblock::raw::vfs::{
    Caller, FileKind, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use eraseblock::target::filesystem;
use eraseblock::text;
use host::Existing;
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the commands are.
pub(crate) const HELP: &str = "Commands:
  put SRC DEST          copy a file or a folder's content in
  get [-f] SRC DEST     copy a file or a directory out; -f replaces what exists
  ls [-l] [PATH]        cat PATH
  mkdir [-p] PATH       rm [-r] [-f] PATH...   mv FROM TO      cp [-r] FROM TO
  ln [-s] TARGET PATH   chmod MODE PATH...     chown UID[:GID] PATH...
  mknod PATH b|c|p [MAJOR MINOR]
  setfattr NAME VALUE PATH   setfattr -x NAME PATH
  truncate SIZE PATH    touch PATH             sync   check   help   quit
MODE is octal, or a change such as u+x,go-w. Words may be quoted; # begins a comment. Names may be
written with the escapes in which they are printed: \\n, \\xFF, \\u{1F}.";

/// Commands done to a file system; what they print is collected.
pub(crate) struct Editor<'a> {
    fs: &'a dyn WritableFileSystem,
    output: Vec<u8>,
    findings: Findings,
    /// The image: it is neither copied into itself nor replaced by what is copied out of it.
    inputs: Inputs,
    bar: ProgressBar,
}

/// Returns the directory part of a path and its last component.
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
        let (inputs, bar) = (Inputs::default(), ProgressBar::hidden());
        Self { fs, output: Vec::new(), findings: Findings::new(), inputs, bar }
    }

    /// Names the files that are read, or changed in place.
    #[must_use]
    pub(crate) fn reading(mut self, inputs: &Inputs) -> Self {
        self.inputs = inputs.clone();
        self
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
            [b"get", b"-f", source, dest] => {
                self.get(source, host(dest), Existing::Replace).map(drop)
            }
            [b"get", source, dest] => self.get(source, host(dest), Existing::Keep).map(drop),
            [b"ls"] => self.list(b"/"),
            [b"ls", b"-l"] => self.list_long(b"/"),
            [b"ls", b"-l", path] => self.list_long(path),
            [b"ls", path] => self.list(path),
            [b"cat", path] => self.print(path),
            [b"mkdir", b"-p", path] => self.make_path(path).map(|_| ()),
            [b"mkdir", path] => self.create(path, NewKind::Directory, 0o755),
            [b"rm", rest @ ..] if !rest.is_empty() => self.remove_all(rest),
            [b"cp", b"-r" | b"-a", from, to] => self.copy_all(from, to),
            [b"cp", from, to] => self.copy(from, to),
            [b"mknod", path, kind, numbers @ ..] => self.make_node(path, kind, numbers),
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
            [b"chmod", mode, paths @ ..] if !paths.is_empty() => {
                return paths.iter().try_for_each(|path| self.change_mode(mode, path));
            }
            [b"chown", owner, paths @ ..] if !paths.is_empty() => {
                let mut ids = owner.splitn(2, |byte| *byte == b':');
                let mut id = || {
                    let word = ids.next().filter(|word| !word.is_empty());
                    word.map(|word| number(word, "a number of an owner")).transpose()
                };
                let changes = SetAttr { uid: id()?, gid: id()?, ..none };
                return paths.iter().try_for_each(|path| {
                    Ok(self.fs.set_attr(self.find(path)?, &changes, &caller())?)
                });
            }
            [b"truncate", size, path] => {
                let size = parse_size(&String::from_utf8_lossy(size))?;
                (path, SetAttr { size: Some(size), ..none })
            }
            [b"setfattr", b"-x", name, path] => {
                return Ok(self.fs.remove_xattr(self.find(path)?, name, &caller())?);
            }
            [b"setfattr", name, value, path] => {
                let ino = self.find(path)?;
                return Ok(self.fs.set_xattr(ino, name, value, XattrMode::Either, &caller())?);
            }
            _ => {
                let words: Vec<String> = words.iter().map(|word| text::name(word)).collect();
                let what = format!("`{}` is no command, or has other arguments", words.join(" "));
                return Err(Failure::new(what).hint("`help` lists the commands"));
            }
        };
        Ok(self.fs.set_attr(self.find(path)?, &changes, &caller())?)
    }

    fn find(&self, path: &[u8]) -> Result<Ino, Failure> {
        find_path(self.fs, path).map(|(ino, _)| ino)
    }

    fn change_mode(&self, mode: &[u8], path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(path)?;
        let attr = self.fs.attr(ino)?;
        let text = String::from_utf8_lossy(mode);
        let changed = mode::changed(&text, attr.permissions, attr.kind == FileKind::Directory);
        let wrong = || Failure::new(format!("`{text}` is not a mode")).hint("e.g. 755 or u+x,go-w");
        let permissions = Some(changed.ok_or_else(wrong)?);
        let changes = SetAttr { permissions, ..SetAttr::default() };
        Ok(self.fs.set_attr(ino, &changes, &caller())?)
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

    fn make_node(&self, path: &[u8], kind: &[u8], numbers: &[&[u8]]) -> Result<(), Failure> {
        let kind = match (kind, numbers) {
            (b"p", []) => NewKind::Fifo,
            (b"b" | b"c" | b"u", [major, minor]) => {
                let number = |word| number::<u32>(word, "a device number");
                let (major, minor) = (number(major)?, number(minor)?);
                if kind == b"b" {
                    NewKind::BlockDevice(major, minor)
                } else {
                    NewKind::CharDevice(major, minor)
                }
            }
            _ => {
                return Err(Failure::new("expected PATH p, or PATH b|c MAJOR MINOR"));
            }
        };
        self.create(path, kind, 0o644)
    }

    fn remove_all(&self, words: &[&[u8]]) -> Result<(), Failure> {
        let is_option = |word: &&&[u8]| word.starts_with(b"-") && word.len() > 1;
        let options = words.iter().take_while(is_option).count();
        let letters: Vec<u8> =
            words[..options].iter().flat_map(|word| word[1..].to_vec()).collect();
        if let Some(letter) = letters.iter().find(|letter| !b"rRf".contains(letter)) {
            let letter = char::from(*letter);
            return Err(Failure::new(format!("rm: no option `{letter}`")).hint("-r, -f"));
        }
        if options == words.len() {
            return Err(Failure::new("rm: which file?"));
        }
        let recursive = letters.iter().any(|letter| matches!(letter, b'r' | b'R'));
        let force = letters.contains(&b'f');
        for path in &words[options..] {
            // With -f, what does not exist is removed already.
            if force && self.find(path).is_err() {
                continue;
            }
            self.remove(path, recursive)?;
        }
        Ok(())
    }

    fn create(&self, path: &[u8], kind: NewKind<'_>, permissions: u32) -> Result<(), Failure> {
        let (dir, name) = self.place(path)?;
        let inode = NewInode { kind, permissions, uid: 0, gid: 0 };
        self.fs.create(dir, name, &inode, &caller()).context(text::name(path))?;
        Ok(())
    }

    fn link(&self, target: &[u8], path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(target)?;
        let (dir, name) = self.place_or_into(path, target)?;
        self.fs.link(ino, dir, name, &caller()).context(text::name(path))
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        let old = self.place(from)?;
        let new = self.place_or_into(to, from)?;
        self.fs.rename(old, new, RenameMode::Replace, &caller()).context(text::name(from))
    }

    fn touch(&self, path: &[u8]) -> Result<(), Failure> {
        if let Ok(ino) = self.fs.resolve(path) {
            let times = SetAttr { atime: Some(now()), mtime: Some(now()), ..SetAttr::default() };
            return Ok(self.fs.set_attr(ino, &times, &caller())?);
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
                    self.fs.create(dir, name, &inode, &caller())?
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
            return self.fs.unlink(dir, name, &caller()).context(text::name(path));
        }
        if recursive {
            self.empty(ino)?;
        }
        self.fs.remove_dir(dir, name, &caller()).context(text::name(path))
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
                self.fs.unlink(dir, &entry.name, &caller())?;
            }
            match (below.is_empty(), place) {
                (false, place) => {
                    waiting.push((dir, place));
                    waiting.extend(below);
                }
                (true, Some((parent, name))) => self.fs.remove_dir(parent, &name, &caller())?,
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

    fn list_long(&mut self, path: &[u8]) -> Result<(), Failure> {
        let ino = self.find(path)?;
        let mut entries = match self.fs.attr(ino)?.kind {
            FileKind::Directory => self.fs.entries(ino)?,
            _ => return self.write_long(&[Entry::of(self.fs, ino, path)]),
        };
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        let entries: Vec<Entry> =
            entries.iter().map(|entry| Entry::of(self.fs, entry.ino, &entry.name)).collect();
        self.write_long(&entries)
    }

    fn write_long(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        for line in long_lines(entries, Style::PLAIN) {
            writeln!(self.output, "{line}")?;
        }
        Ok(())
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
        let attr = self.fs.attr(ino)?;
        let output = &mut self.output;
        let copied = filesystem::copy(self.fs, &attr, &mut |_, bytes| output.write_all(bytes));
        copied.context(text::name(path)).map(drop)
    }
}

/// Returns the owner of the medium, on whose behalf everything is done, at the current time.
fn caller() -> Caller {
    Caller::owner(now())
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
    use eraseblock::raw::vfs::FileSystem as _;
    use eraseblock::raw::vfs_testkit::ModelFs;

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
                "chmod u+w,o-x a/b/x",
                "mknod n c 5 1",
                "mknod p p",
                "cp -r a a/copy",
                "cp a/b/x new",
                "ls -l",
                "rm -rf p /none",
                "rm -f n",
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
        assert!(
            printed.contains("crw-r--r-- 1 0 0 5,1 ") && printed.contains("-rws--x--- 1 7 8 "),
            "{printed}"
        );
        assert_eq!(fs.inode_count(), 2);
        assert_eq!(std::fs::read(out.join("b/x")).unwrap(), b"te");
        assert!(out.join("b/sub").is_dir());
        assert_eq!(std::fs::read(out.join("copy/b/c/y")).unwrap(), b"te");
        assert!(!out.join("copy/copy").exists());
    }

    #[test]
    fn wrong_commands_are_told() {
        let fs = ModelFs::default();
        for line in [
            "fly",
            "mkdir",
            "chmod 9 /",
            "chown x /",
            "cat /none",
            "rm /",
            "put /nonexistent /a",
            "rm -x /",
            "rm -r",
            "mknod a c",
            "mknod a q 1 1",
            "cp / /a",
            "chmod",
            "ls -x /",
        ] {
            assert!(script(&fs, &[line]).is_err(), "{line}");
        }
        script(&fs, &["mkdir a", "mkdir a/b"]).unwrap();
        assert!(script(&fs, &["rm a"]).is_err());
        script(&fs, &["touch f", "ln f g"]).unwrap();
        for line in ["cp f f", "cp f g", "cp a c"] {
            assert!(script(&fs, &[line]).is_err(), "{line}");
        }
        script(&fs, &["rm f g"]).unwrap();
        assert_eq!(fs.entries(1).unwrap().len(), 1);
    }
}
