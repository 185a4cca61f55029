//! `cargo xtask dist --check`: everything in `target/dist` is made a second time elsewhere, and used as
//! its users do.
//!
//! The second time, the packed sources are built in another folder without a network, with a
//! folder of cargo that has nothing in it.

use super::{LICENCES, Programs, SBOM, Sources, TARGET, VERSION, pack, wheel};
use crate::command::{cargo_in, find_program, output, repository};
use crate::python::{self, interpreter, tools};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that are used, and the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 7] = [
    ("chroot", "coreutils"),
    ("fakeroot", "fakeroot"),
    ("lintian", "lintian"),
    ("mandoc", "mandoc"),
    ("mmdebstrap", "mmdebstrap"),
    ("skopeo", "skopeo"),
    ("umoci", "umoci"),
];

/// What the fresh Debian gets, besides the package.
const INCLUDED: &str = "man-db,bash-completion,mtd-utils";

/// Checks everything in `dist`; the first failure ends the run.
pub(super) fn run(dist: &Path) -> Result<bool> {
    for (program, package) in PROGRAMS {
        let hint = format!("hint: apt-get install {package}, or make dist CHECK=1");
        find_program(program).with_context(|| format!("{program} is missing ({hint})"))?;
    }
    let home = repository().join("target/dist-check");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home)?;
    let mut passed = 0;
    let mut pass = |what: &str| {
        passed += 1;
        println!("pass: {what}");
    };
    output(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(dist))?;
    pass("the checksums are those of the files");
    static_program(dist, &home)?;
    pass("the static program runs where nothing else is, and refuses fakeroot");
    manual_pages(dist)?;
    pass("no manual page has a warning of mandoc or man");
    container(dist, &home)?;
    pass("skopeo and umoci accept the container image, which contains the static program");
    let package = dist.join(format!("eraseblock_{VERSION}_amd64.deb"));
    lintian(&package)?;
    pass("lintian reports no error");
    for line in installed(&package, &home)?.lines().filter_map(|line| line.strip_prefix("pass: ")) {
        pass(&format!("Debian package: {line}"));
    }
    wheels(dist)?;
    pass(
        "auditwheel and abi3audit accept the wheels; the one for this system works, and so does its command",
    );
    again(dist, &home)?;
    pass("built from the packed sources, without a network, everything has the same bytes");
    println!("{passed} passed, 0 failed");
    Ok(true)
}

/// Returns the command that runs another one by root in `root` as its root directory.
fn within(root: &Path) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root);
    command
}

/// Runs the demo of the repository with another command than the one it builds.
fn demo(program: &Path) -> Result<()> {
    let mut demo = Command::new(repository().join("demo.sh"));
    let text = output(demo.arg(repository().join("docs")).env("ERASEBLOCK", program))?;
    ensure!(text.contains("The image gave back exactly the"), "the demo prints {text}");
    Ok(())
}

fn static_program(dist: &Path, home: &Path) -> Result<()> {
    let program = dist.join("eraseblock");
    let empty = home.join("empty");
    fs::create_dir(&empty)?;
    fs::copy(&program, empty.join("eraseblock"))?;
    let text = output(within(&empty).args(["/eraseblock", "--version"]))
        .context("hint: chroot needs root")?;
    ensure!(text.trim() == format!("eraseblock {VERSION}"), "it prints {text:?}");
    demo(&program)?;
    // fakeroot replaces functions of the shared C library, which this program does not use.
    let mut pretended = Command::new("fakeroot");
    pretended.arg(&program).args(["mkfs", "ubifs"]).arg(&empty);
    pretended.args(["--page", "2048", "--leb", "126976", "-o"]).arg(home.join("fake.ubifs"));
    let done = pretended.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(!done.status.success() && said.contains("fakeroot"), "under fakeroot: {said}");
    Ok(())
}

/// Reads every page with both readers; only advice on style may remain.
fn manual_pages(dist: &Path) -> Result<()> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(dist.join("man"))? {
        pages.push(entry?.path());
    }
    pages.sort();
    let mut lint = Command::new("mandoc");
    let done = lint.args(["-T", "lint", "-W", "warning"]).args(&pages).output()?;
    let found = String::from_utf8_lossy(&done.stdout);
    ensure!(done.status.success(), "mandoc: {found}");
    for page in pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "--encoding=UTF-8", "--local-file"]).arg(&page);
        let done = man.env("MANROFFSEQ", "").stdin(Stdio::null()).output()?;
        let found = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success() && found.is_empty(), "{}: {found}", page.display());
    }
    Ok(())
}

fn container(dist: &Path, home: &Path) -> Result<()> {
    let archive = dist.join(format!("eraseblock-{VERSION}.oci.tar"));
    let mut inspect = Command::new("skopeo");
    inspect.arg("inspect").arg(format!("oci-archive:{}", archive.display()));
    let described: serde_json::Value = serde_json::from_str(&output(&mut inspect)?)?;
    ensure!(described["Architecture"] == "amd64", "skopeo reports {described}");
    let (layout, bundle) = (home.join("layout"), home.join("bundle"));
    fs::create_dir(&layout)?;
    output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&layout))?;
    let mut unpack = Command::new("umoci");
    unpack.args(["unpack", "--rootless", "--image"]).arg(format!("{}:{VERSION}", layout.display()));
    output(unpack.arg(&bundle))?;
    let root = bundle.join("rootfs");
    let listed = output(Command::new("find").arg(".").args(["-type", "f"]).current_dir(&root))?;
    let names = listed.lines().filter(|name| !name.starts_with("./licences/"));
    ensure!(names.eq(["./eraseblock"]), "the image contains {listed}");
    ensure!(
        fs::read(root.join("eraseblock"))? == fs::read(dist.join("eraseblock"))?,
        "the program in the image is another one"
    );
    output(within(&root).args(["/eraseblock", "info", "--help"]))?;
    demo(&root.join("eraseblock"))
}

fn lintian(package: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--allow-root", "--tag-display-limit", "0"]).arg(package);
    let done = lintian.stdin(Stdio::null()).output()?;
    let found = String::from_utf8_lossy(&done.stdout);
    print!("{found}");
    ensure!(done.status.success(), "lintian: {found}");
    Ok(())
}

/// Installs, uses and purges the package in a fresh Debian, and returns what passed.
fn installed(package: &Path, home: &Path) -> Result<String> {
    let root = home.join("debian");
    fs::create_dir(&root)?;
    output(Command::new("tar").arg("-xf").arg(debian()?).arg("-C").arg(&root))?;
    fs::copy(package, root.join("package.deb"))?;
    fs::copy(repository().join("demo.sh"), root.join("demo.sh"))?;
    fs::write(root.join("installed.sh"), include_str!("installed.sh"))?;
    // apt and man read /proc, which is there only in a namespace of its own.
    let mut run = Command::new("unshare");
    run.args(["--mount", "--pid", "--fork", "--net"]);
    run.arg(format!("--mount-proc={}", root.join("proc").display())).arg("chroot").arg(&root);
    let done = run.args(["sh", "/installed.sh"]).stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    ensure!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    Ok(text)
}

/// Returns the archive of a fresh Debian of this machine's version; it is kept.
fn debian() -> Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.context("/etc/os-release has no VERSION_CODENAME")?;
    let archive = repository().join(format!("target/tools/{suite}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    let lists = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    let list = lists.into_iter().find(|list| Path::new(list).is_file());
    let list = list.context("apt has no list of sources")?;
    let part = archive.with_extension("part.tar");
    fs::create_dir_all(repository().join("target/tools"))?;
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=minbase", "--include", INCLUDED, suite]);
    output(make.arg(&part).arg(list))?;
    fs::rename(&part, &archive)?;
    Ok(archive)
}

/// Examines the wheels, and uses the one for the C library of this machine.
pub(super) fn wheels(dist: &Path) -> Result<()> {
    let home = &repository().join("target/dist-check-wheels");
    let _ = fs::remove_dir_all(home);
    let tools = tools()?;
    let [shared, _] = &wheel::SYSTEMS;
    for system in &wheel::SYSTEMS {
        let path = system.wheel(dist)?;
        let mut audit = Command::new(tools.with_file_name("abi3audit"));
        output(audit.args(["--strict", "--report"]).arg(&path))?;
        let folder = home.join(system.tag);
        wheel::unpack(&path, &folder)?;
        let mut find = Command::new("find");
        let files = output(find.arg(&folder).args(["-type", "f", "-size", "+0"]))?;
        if system.tag == shared.tag {
            let mut audit = Command::new(tools.with_file_name("auditwheel"));
            // It breaks its lines anywhere.
            let found = output(audit.arg("show").arg(&path))?;
            let words: Vec<&str> = found.split_whitespace().collect();
            let accepted = format!("platform tag: \"{}\".", system.tag);
            ensure!(words.join(" ").contains(&accepted), "auditwheel: {found}");
        } else {
            // auditwheel takes the linker script of this machine's C library for that of musl.
            let mut read = Command::new("readelf");
            let found = output(read.arg("-dW").arg(folder.join("eraseblock/_native.abi3.so")))?;
            let needed: Vec<&str> =
                found.lines().filter(|line| line.contains("(NEEDED)")).collect();
            let is_musl = matches!(&needed[..], [only] if only.ends_with("[libc.so]"));
            ensure!(is_musl, "it needs {needed:?}");
        }
        for name in [LICENCES, SBOM, "LICENSE-MIT", "LICENSE-APACHE"] {
            ensure!(files.lines().any(|file| file.ends_with(name)), "{name} is not in {files}");
        }
    }
    let python =
        python::installed(&home.join("python"), &interpreter()?, &shared.wheel(dist)?, &[])?;
    let question =
        "import eraseblock, sys; sys.exit(eraseblock._native.cli('x', ['x', '--version']))";
    let text = output(Command::new(&python).args(["-I", "-c", question]))?;
    ensure!(text.trim() == format!("eraseblock {VERSION}"), "it prints {text:?}");
    demo(&python.with_file_name("eraseblock"))
}

/// Builds the packed sources and packs everything again; all files must have the same bytes.
fn again(dist: &Path, home: &Path) -> Result<()> {
    let name = format!("eraseblock-{VERSION}");
    let archive = dist.join(format!("{name}.tar.xz"));
    output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(home))?;
    let sources = Sources::packed(home.join(&name), home.join("cargo"))?;
    fs::create_dir(&sources.cargo_home)?;
    let mut ask = cargo_in(&sources.root);
    ask.args(["metadata", "--offline", "--frozen", "--format-version", "1"]);
    output(ask.env("CARGO_HOME", &sources.cargo_home))?;
    let second = home.join("dist");
    pack(&sources, &Programs::build(&sources)?, &second)?;
    let sums = |dir: &Path| fs::read_to_string(dir.join("SHA256SUMS"));
    let (first, second) = (sums(dist)?, sums(&second)?);
    let differ: Vec<&str> =
        first.lines().filter(|line| !second.lines().any(|other| other == *line)).collect();
    ensure!(first == second, "made twice for {TARGET}, these differ:\n{}", differ.join("\n"));
    Ok(())
}
