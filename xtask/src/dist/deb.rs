//! The Debian package: the command, linked with the C library so that fakeroot works, man pages,
//! completions, and links by the names of the classic tools in a folder that is not in PATH.

use super::tree::Tree;
use super::{LICENCES, SHELLS, VERSION};
use crate::command::{output, repository};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Links by the names of other tools. It is not in PATH; once it is, man(1) looks for pages in the
/// folder `share/man` next to it.
const OTHER_NAMES: &str = "usr/lib/eraseblock";

/// Where the shells of Debian look for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/eraseblock"),
    ("fish", "usr/share/fish/vendor_completions.d/eraseblock.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_eraseblock"),
];

const DOC: &str = "usr/share/doc/eraseblock";

/// The authors of `Cargo.toml`. The format wants an address; they publish none, and this one can
/// belong to no one.
const MAINTAINER: &str = concat!(env!("CARGO_PKG_AUTHORS"), " <maintainers@eraseblock.invalid>");

/// Packs `program` with the completions and man pages in `dist`; the package is written there.
pub(super) fn write(program: &Path, dist: &Path, epoch: &str) -> Result<()> {
    let tree = Tree::new("deb")?;
    tree.copy(program, "usr/bin/eraseblock", 0o755)?;
    for name in personalities(program)? {
        tree.link(&format!("{OTHER_NAMES}/bin/{name}"), "../../../bin/eraseblock")?;
    }
    for (shell, place) in COMPLETIONS {
        let file = SHELLS.iter().find(|(name, _)| *name == shell).context("a shell")?.1;
        tree.copy(&dist.join("completions").join(file), place, 0o644)?;
    }
    for page in fs::read_dir(dist.join("man"))? {
        let page = page?.path();
        let name = page.file_name().context("a page")?.to_string_lossy().into_owned();
        let section = page.extension().context("a section")?.to_string_lossy();
        // A page by the name of another tool may be in that tool's package as well.
        let share = if name.starts_with("eraseblock") { "usr" } else { OTHER_NAMES };
        let place = format!("{share}/share/man/man{section}/{name}");
        tree.copy(&page, &place, 0o644)?;
        tree.gzip(&place)?;
    }
    documents(&tree, epoch)?;
    let licences = format!("{DOC}/{LICENCES}");
    tree.copy(&dist.join(LICENCES), &licences, 0o644)?;
    tree.gzip(&licences)?;
    tree.write("DEBIAN/control", control(program, &tree)?.as_bytes(), 0o644)?;
    tree.settle(epoch)?;
    let package = dist.join(format!("eraseblock_{VERSION}_amd64.deb"));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"])
        .env("SOURCE_DATE_EPOCH", epoch);
    output(build.arg(&tree.0).arg(&package))
        .context("hint: dpkg-deb of Debian, 1.21.9 or newer")?;
    Ok(())
}

/// The names by which the command can be run.
fn personalities(program: &Path) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Made {
        links: Vec<PathBuf>,
    }
    let mut names = Vec::new();
    for readers in [None, Some("--readers")] {
        let scratch = Tree::new("links")?;
        let mut command = Command::new(program);
        command.args(["--json", "personalities", "--dir"]).arg(&scratch.0).args(readers);
        let made: Made = serde_json::from_str(&output(&mut command)?)?;
        let name =
            |link: &PathBuf| link.file_name().map(|name| name.to_string_lossy().into_owned());
        names.extend(made.links.iter().filter_map(name));
    }
    Ok(names)
}

fn documents(tree: &Tree, epoch: &str) -> Result<()> {
    let licence = fs::read_to_string(repository().join("LICENSE-MIT"))?;
    let body = licence.trim().lines().skip_while(|line| !line.starts_with("Permission"));
    let notice = licence.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let notice = notice.context("LICENSE-MIT names no author")?;
    let body: String = body
        .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
        .collect();
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: eraseblock\n\n\
         Files: *\n\
         Copyright: {notice}\n\
         License: Expat or Apache-2.0\n\
         Comment: The libraries of others in the program, with their licences, are in\n \
         THIRD-PARTY-LICENCES.gz.\n\n\
         License: Expat\n{body}\n\
         License: Apache-2.0\n \
         On Debian systems, the text of the Apache License 2.0 is in\n \
         /usr/share/common-licenses/Apache-2.0.\n"
    );
    tree.write(&format!("{DOC}/copyright"), copyright.as_bytes(), 0o644)?;
    let date = output(
        Command::new("date").args(["--utc", "--rfc-email", "--date"]).arg(format!("@{epoch}")),
    )?;
    let changes = format!(
        "eraseblock ({VERSION}) unstable; urgency=medium\n\n  \
         * See NEWS.gz for what changed.\n\n -- {MAINTAINER}  {date}"
    );
    tree.write(&format!("{DOC}/changelog"), changes.as_bytes(), 0o644)?;
    tree.gzip(&format!("{DOC}/changelog"))?;
    tree.copy(&repository().join("CHANGELOG.md"), &format!("{DOC}/NEWS"), 0o644)?;
    tree.gzip(&format!("{DOC}/NEWS"))?;
    Ok(())
}

fn control(program: &Path, tree: &Tree) -> Result<String> {
    // dpkg-shlibdeps asks for the control file of a source package.
    let scratch = Tree::new("shlibdeps")?;
    scratch.write(
        "debian/control",
        b"Source: eraseblock\n\nPackage: eraseblock\nArchitecture: amd64\n",
        0o644,
    )?;
    let mut ask = Command::new("dpkg-shlibdeps");
    ask.args(["-O", "-e"]).arg(program).current_dir(&scratch.0);
    let libraries =
        output(&mut ask).context("hint: dpkg-shlibdeps of the Debian package dpkg-dev")?;
    let libraries = libraries.trim().strip_prefix("shlibs:Depends=").context("no dependencies")?;
    let size =
        output(Command::new("du").args(["--apparent-size", "--summarize", "-k"]).arg(&tree.0))?;
    let size = size.split_whitespace().next().context("no size")?.to_owned();
    Ok(format!(
        "Package: eraseblock\n\
         Version: {VERSION}\n\
         Architecture: amd64\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {size}\n\
         Depends: {libraries}\n\
         Suggests: fuse3\n\
         Section: utils\n\
         Priority: optional\n\
         Description: build, read, change, check and repair flash images (UBI, UBIFS, JFFS2)\n \
         Linux's raw-flash storage stack in user space: images of UBI, UBIFS, JFFS2 and\n \
         YAFFS2 are built, read, mounted through FUSE, changed, checked and repaired\n \
         without root and without kernel modules. Linux mounts what it writes.\n \
         .\n \
         Links by the names of mkfs.ubifs, ubinize, mkfs.jffs2 and other tools are in\n \
         /usr/lib/eraseblock/bin.\n"
    ))
}
