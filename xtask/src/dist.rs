//! `cargo xtask dist` fills `target/dist`: the command as one static program, completions, man
//! pages, licences, an SBOM, a Debian package, a container image, wheels of the Python package, the
//! sources with those of all dependencies, and checksums of all files. With `--check` it also builds everything a second time,
//! from the packed sources, and uses each part as its users do.
//!
//! # Invariants
//! 1. The same commit and toolchain give the same bytes, regardless of the location of the
//!    repository and of the dependencies: paths of the machine are replaced in the program, and the
//!    only time is that of the commit.

mod check;
mod deb;
mod licences;
mod oci;
mod sbom;
mod source;
mod tree;
mod wheel;

use crate::command::{cargo_in, output, repository};
use crate::evaluate::sha256;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The build target of the static program: it needs no shared library, not even the C library.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The build target of the Debian package: fakeroot works only with the shared C library.
const SHARED: &str = "x86_64-unknown-linux-gnu";

/// What programs contain in place of the folder in which cargo keeps what it fetched.
const CARGO_HOME: &str = "/cargo";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The file with the software bill of materials.
const SBOM: &str = "eraseblock.spdx.json";

/// The file with the licences of what others wrote.
const LICENCES: &str = "THIRD-PARTY-LICENCES";

const SHELLS: [(&str, &str); 5] = [
    ("bash", "eraseblock.bash"),
    ("elvish", "eraseblock.elv"),
    ("fish", "eraseblock.fish"),
    ("powershell", "eraseblock.ps1"),
    ("zsh", "_eraseblock"),
];

/// Builds everything and replaces the output of an earlier run; `--check` tries it. `--wheels` makes
/// only the wheels again, with what an earlier run left.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let is_checked = match args {
        [] => false,
        [only] if only == "--check" => true,
        [only] if only == "--wheels" => {
            let dist = repository().join("target/dist");
            wheel::write(&Sources::repository()?, &dist, &commit_time()?)?;
            check::wheels(&dist)?;
            return Ok(true);
        }
        _ => bail!("unknown arguments {args:?}"),
    };
    ensure_committed()?;
    let sources = Sources::repository()?;
    let programs = Programs::build(&sources)?;
    let dist = repository().join("target/dist");
    let sums = pack(&sources, &programs, &dist)?;
    print!("{sums}");
    println!("{} files in {}", sums.lines().count() + 1, dist.display());
    if is_checked { check::run(&dist) } else { Ok(true) }
}

/// Fails if files differ from those of the commit: the packed sources are those of the commit.
fn ensure_committed() -> Result<()> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--untracked-files=no"]).current_dir(repository());
    let changed = output(&mut git)?;
    let hint =
        "hint: commit or stash the changes; the sources that are packed are those of the commit";
    ensure!(changed.is_empty(), "these files were changed after the commit ({hint}):\n{changed}");
    Ok(())
}

/// Where the sources are, and those of the dependencies.
struct Sources {
    root: PathBuf,
    /// The folder in which cargo keeps what it fetched.
    cargo_home: PathBuf,
    /// The folder of the dependencies, and what the program contains in its place.
    dependencies: (PathBuf, String),
}

impl Sources {
    /// Those of this repository, with the dependencies that cargo fetched.
    fn repository() -> Result<Self> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home =
            home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
        let cargo_home = home.context("neither CARGO_HOME nor HOME is set")?;
        let dependencies = (cargo_home.clone(), CARGO_HOME.to_owned());
        Ok(Self { root: repository(), cargo_home, dependencies })
    }

    /// Packed ones in `root`, built with an empty folder of cargo. The program contains the same paths:
    /// the dependencies lie where cargo puts those that it fetches.
    fn packed(root: PathBuf, cargo_home: PathBuf) -> Result<Self> {
        let packed = root.join(source::THIRD_PARTY);
        let any = fs::read_dir(&packed)?.next().context("no dependency is packed")??.file_name();
        let fetched = Self::repository()?.cargo_home;
        for registry in fs::read_dir(fetched.join("registry/src"))? {
            let registry = registry?.path();
            if registry.join(&any).is_dir() {
                let place = Path::new(CARGO_HOME).join(registry.strip_prefix(&fetched)?);
                let dependencies = (packed, place.display().to_string());
                return Ok(Self { root, cargo_home, dependencies });
            }
        }
        bail!("cargo has not fetched {}", any.display())
    }

    /// Whether the dependencies lie next to the sources.
    fn are_packed(&self) -> bool {
        self.root.join(source::THIRD_PARTY).is_dir()
    }

    /// Prepares a build: it takes everything from here, and leaves no path of this machine in the
    /// result.
    fn settle(&self, command: &mut Command) {
        let (from, to) = &self.dependencies;
        let dependencies = format!("{}={to}", from.display());
        let root = self.root.display();
        // The last one that matches counts.
        let flags =
            format!("--remap-path-prefix={root}=/eraseblock --remap-path-prefix={dependencies}");
        command
            .env("CARGO_HOME", &self.cargo_home)
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTFLAGS", flags)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR")
            .env("CFLAGS", format!("-ffile-prefix-map={dependencies}"));
    }
}

/// The command for both targets.
struct Programs {
    portable: PathBuf,
    shared: PathBuf,
}

impl Programs {
    fn build(sources: &Sources) -> Result<Self> {
        Ok(Self { portable: build(sources, TARGET)?, shared: build(sources, SHARED)? })
    }
}

/// Packs everything into `dist`, and returns its checksums.
fn pack(from: &Sources, programs: &Programs, dist: &Path) -> Result<String> {
    let epoch = commit_time()?;
    let _ = fs::remove_dir_all(dist);
    fs::create_dir_all(dist.join("completions"))?;
    let command = dist.join("eraseblock");
    fs::copy(&programs.portable, &command)?;
    ensure_static(&command)?;
    for (shell, file) in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        fs::write(dist.join("completions").join(file), script)?;
    }
    let date = output(Command::new("date").args(["-u", "+%F", "-d"]).arg(format!("@{epoch}")))?;
    output(Command::new(&command).arg("man").arg(dist.join("man")).args(["--date", date.trim()]))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        fs::copy(repository().join(name), dist.join(name))?;
    }
    fs::write(dist.join(SBOM), sbom::document(TARGET)?)?;
    let sources = source::tree()?;
    fs::write(dist.join(LICENCES), licences::text(&sources.0, TARGET)?)?;
    deb::write(&programs.shared, dist, &epoch)?;
    oci::write(&command, dist, &epoch)?;
    source::write(&sources, dist, &epoch)?;
    wheel::write(from, dist, &epoch)?;
    let sums = sums(dist)?;
    fs::write(dist.join("SHA256SUMS"), &sums)?;
    Ok(sums)
}

/// The time of the commit, in seconds since 1970.
fn commit_time() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(repository());
    Ok(output(&mut git)?.trim().to_owned())
}

/// Builds the command for a target.
fn build(sources: &Sources, target: &str) -> Result<PathBuf> {
    let mut command = cargo_in(&sources.root);
    if sources.are_packed() {
        command.arg("--offline");
    }
    command
        .args(["build", "--quiet", "--locked", "--profile", "portable", "--target", target])
        .args(["--package", "eraseblock-cli"]);
    sources.settle(&mut command);
    // The allocator contains the time at which it was compiled. Its object is kept from one commit to
    // the next, so the time is no commit's.
    command.env("SOURCE_DATE_EPOCH", "0");
    let status = command.status()?;
    ensure!(
        status.success(),
        "cannot build for {target} (hint: rustup target add {target}, and musl-gcc of the Debian \
         package musl-tools)"
    );
    Ok(sources.root.join("target").join(target).join("portable/eraseblock"))
}

/// Fails if the program asks for an interpreter or contains a path of this machine.
fn ensure_static(program: &Path) -> Result<()> {
    let headers =
        output(Command::new("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    ensure!(!headers.contains("INTERP"), "{} is not static", program.display());
    ensure_no_path(program)
}

/// Fails if a file contains a path of this machine.
fn ensure_no_path(file: &Path) -> Result<()> {
    let bytes = fs::read(file)?;
    let root = repository().display().to_string();
    let is_there = bytes.windows(root.len()).any(|window| window == root.as_bytes());
    ensure!(!is_there, "{} contains the path {root}", file.display());
    Ok(())
}

/// Returns a line in the format of sha256sum(1) for each file in `dir`, by name.
fn sums(dir: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(dir, dir, &mut files)?;
    files.sort();
    let mut text = String::new();
    for file in files {
        let sum = sha256(&fs::read(dir.join(&file))?);
        let _ = writeln!(text, "{sum}  {}", file.display());
    }
    Ok(text)
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.push(path.strip_prefix(root)?.to_path_buf());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_summed_as_sha256sum_does() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        for (name, content) in [("b", "two"), ("a/z", "one")] {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let text = sums(dir.path()).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(names, ["a/z", "b"]);
        fs::write(dir.path().join("SHA256SUMS"), text).unwrap();
        let mut check = Command::new("sha256sum");
        let said = output(check.args(["-c", "SHA256SUMS"]).current_dir(dir.path())).unwrap();
        assert_eq!(said, "a/z: OK\nb: OK\n");
    }

    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        let error = ensure_static(Path::new("/bin/sh")).unwrap_err().to_string();
        assert!(error.ends_with("is not static"), "{error}");
    }
}
