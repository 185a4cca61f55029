//! `cargo xtask capi`: the C library, installed in a folder and used by C and C++ programs that know
//! nothing but `pkg-config`.

use crate::command::{cargo, find_program, output, repository};
use crate::evaluate::sha256;
use crate::kernel::cache_dir;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of each image of Linux that are read and compared.
const FILES: usize = 20;

/// Images of Linux that are read.
const IMAGES: usize = 3;

/// The image that the programs read: its folder `rootfs` is made by [`board`].
const LAYOUT: &str = "[flash]
part = \"W29N01HV\"

[[volume]]
name = \"env\"
type = \"static\"
content = { file = \"env\" }

[[volume]]
name = \"rootfs\"
size = \"24MiB\"
content = { ubifs = \"rootfs\", compressor = \"none\" }
";

/// Installs the library, builds the programs and runs them; prints their counts.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    ensure!(args.is_empty(), "unknown arguments {args:?}");
    let home = repository().join("target/capi");
    let _ = fs::remove_dir_all(&home);
    let installed = Installed::new(&home.join("usr"))?;
    let layout = board(&home.join("board"))?;
    let (mut passed, mut failed) = (0, 0);
    for how in [How::Plain, How::Sanitized, How::Valgrind] {
        let all = installed.compile("tests/all.c", &home.join("all"), how)?;
        let scratch = home.join("scratch");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch)?;
        let counts = output(how.run(&installed, &all).arg(&layout).arg(&scratch))
            .with_context(|| format!("tests/all.c, {how:?}"))?;
        let (good, bad) = counted(&counts)?;
        (passed, failed) = (passed + good, failed + bad);
    }
    let cat = installed.compile("examples/cat.c", &home.join("cat"), How::Plain)?;
    let tree = installed.compile("examples/tree.cpp", &home.join("tree"), How::Plain)?;
    let board = home.join("scratch/board.ubi");
    let listed = output(How::Plain.run(&installed, &tree).arg(&board))?;
    ensure!(listed.contains(" 12 /etc/motd\n"), "tree prints {listed:?}");
    guide(&installed, &home, &board)?;
    let read = images_of_linux(&installed, &cat)?;
    println!("{read} files of images that Linux wrote are as it saw them");
    println!("{} passed, {failed} failed", passed + 2 + read);
    Ok(failed == 0)
}

/// Reads `96 passed, 0 failed`.
fn counted(text: &str) -> Result<(usize, usize)> {
    let line = text.lines().last().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [passed, "passed,", failed, "failed"] = words[..] else { bail!("no counts in {text:?}") };
    Ok((passed.parse()?, failed.parse()?))
}

/// How a program is compiled and run.
#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    /// With the sanitizers for addresses and undefined behaviour.
    Sanitized,
    /// Under valgrind, where there is one.
    Valgrind,
}

impl How {
    fn run(self, installed: &Installed, program: &Path) -> Command {
        let valgrind = find_program("valgrind").filter(|_| matches!(self, Self::Valgrind));
        let mut command = Command::new(valgrind.as_deref().unwrap_or(program));
        if valgrind.is_some() {
            command.args(["--quiet", "--leak-check=full", "--show-leak-kinds=definite"]);
            command.args(["--errors-for-leak-kinds=definite", "--error-exitcode=9"]).arg(program);
        }
        command.env("LD_LIBRARY_PATH", installed.prefix.join("lib")).stdin(Stdio::null());
        command
    }
}

/// The library in a folder of its own.
struct Installed {
    prefix: PathBuf,
}

impl Installed {
    /// Builds and installs it. The module for Python is built with it, so that both share their
    /// dependencies with the rest of the tests.
    fn new(prefix: &Path) -> Result<Self> {
        let root = repository();
        let mut build = cargo();
        build.args(["build", "--quiet", "--lib", "--package", "eraseblock-capi"]);
        build.args(["--package", "eraseblock-python"]).current_dir(&root);
        ensure!(build.status()?.success(), "the library cannot be built");
        let mut install = Command::new("make");
        install.args(["--no-print-directory", "install-capi", "BUILT=target/debug"]);
        install.arg(format!("PREFIX={}", prefix.display())).current_dir(&root);
        output(&mut install)?;
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// Compiles a program of the crate against what pkg-config says.
    fn compile(&self, source: &str, program: &Path, how: How) -> Result<PathBuf> {
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs", "eraseblock"]);
        let flags = output(ask.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig")))?;
        let (compiler, standard) = if Path::new(source).extension().is_some_and(|it| it == "cpp") {
            ("g++", "-std=c++17")
        } else {
            ("gcc", "-std=c11")
        };
        let mut compile = Command::new(compiler);
        compile.args([standard, "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
        if matches!(how, How::Sanitized) {
            compile.arg("-fsanitize=address,undefined");
        }
        compile.arg(repository().join("crates/capi").join(source)).arg("-o").arg(program);
        output(compile.args(flags.split_whitespace())).with_context(|| source.to_owned())?;
        Ok(program.to_owned())
    }
}

/// Makes the folder that the programs build an image of, and returns its layout file.
fn board(folder: &Path) -> Result<PathBuf> {
    let etc = folder.join("rootfs/etc");
    fs::create_dir_all(&etc)?;
    fs::write(etc.join("motd"), "hello flash\n")?;
    output(Command::new("chmod").arg("640").arg(etc.join("motd")))?;
    symlink("motd", etc.join("issue"))?;
    fs::write(folder.join("rootfs/big"), "x".repeat(200_000))?;
    fs::write(folder.join("env"), "bootdelay=3\n")?;
    output(Command::new("touch").args(["-h", "-d", "@1700000000"]).arg(etc.join("issue")))?;
    let layout = folder.join("board.toml");
    fs::write(&layout, LAYOUT)?;
    Ok(layout)
}

/// Compiles and runs what docs/guide-c.md shows.
fn guide(installed: &Installed, home: &Path, board: &Path) -> Result<()> {
    let page = fs::read_to_string(repository().join("docs/guide-c.md"))?;
    let shown = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = shown.context("no C in docs/guide-c.md")?;
    let program = format!(
        "#include <eraseblock.h>\n#include <stdio.h>\nint main(void) {{\n{shown}\
         fwrite(motd, 1, length < 0 ? 0 : (size_t)length, stdout);\nreturn length < 0;\n}}\n"
    );
    let source = home.join("guide.c");
    fs::write(&source, program)?;
    let source = source.to_str().context("a path that is no text")?;
    let guide = installed.compile(source, &home.join("guide"), How::Plain)?;
    let mut run = How::Plain.run(installed, &guide);
    let said = output(run.current_dir(board.parent().context("a folder")?))?;
    ensure!(said == "hello flash\n", "docs/guide-c.md prints {said:?}");
    Ok(())
}

/// Reads files of images that Linux wrote for the oracle, and compares them with what it saw.
fn images_of_linux(installed: &Installed, cat: &Path) -> Result<usize> {
    let Ok(folders) = fs::read_dir(cache_dir().join("images")) else { return Ok(0) };
    let mut folders: Vec<PathBuf> = folders
        .flatten()
        .map(|entry| entry.path())
        .filter(|it| it.join("manifest").is_file())
        .collect();
    folders.sort();
    let mut read = 0;
    for folder in folders.iter().take(IMAGES) {
        let manifest = fs::read_to_string(folder.join("manifest"))?;
        for (path, hash) in manifest.lines().filter_map(file).take(FILES) {
            let mut command = How::Plain.run(installed, cat);
            let shown = command.arg(folder.join("image.bin")).arg(path).output()?;
            ensure!(shown.status.success(), "{path}: {}", String::from_utf8_lossy(&shown.stderr));
            let found = sha256(&shown.stdout);
            ensure!(
                found == hash,
                "{path} of {}: found {found}, expected {hash}",
                folder.display()
            );
            read += 1;
        }
    }
    Ok(read)
}

/// The path and the hash of a line of a manifest that is a file with a plain name
/// (crates/vfs-testkit/src/manifest.rs).
fn file(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let path = words.next().filter(|path| !path.contains('\\'))?;
    Some((path, words.find_map(|word| word.strip_prefix("content=sha256:"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(counted("x\n96 passed, 1 failed\n").unwrap(), (96, 1));
        assert!(counted("96 passed").is_err());
    }

    #[test]
    fn files_of_manifests_are_read() {
        let line =
            "etc/motd - 0644 0:0 nlink=1 mtime=1 size=3 dev=- group=- content=sha256:00ff xattrs=-";
        assert_eq!(file(line), Some(("etc/motd", "00ff")));
        assert_eq!(file(&line.replace("motd", "a\\x20b")), None);
        assert_eq!(file(&line.replace("sha256:00ff", "-")), None);
    }
}
