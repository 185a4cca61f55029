//! `cargo xtask dist` fills `target/dist`: the command as one static program, completions, man
//! pages, licences, an SBOM, a Debian package, a container image, the sources with those of all
//! dependencies, and checksums of all files.
//!
//! # Invariants
//! 1. The same commit and toolchain give the same bytes, regardless of the location of the
//!    repository: paths of the machine are replaced in the program, and the only time is that of
//!    the commit.

mod deb;
mod oci;
mod sbom;
mod source;
mod tree;

use crate::command::{cargo, output, repository};
use crate::evaluate::sha256;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The build target of the static program: it needs no shared library, not even the C library.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The build target of the Debian package: fakeroot works only with the shared C library.
const SHARED: &str = "x86_64-unknown-linux-gnu";

const VERSION: &str = env!("CARGO_PKG_VERSION");

const SHELLS: [(&str, &str); 5] = [
    ("bash", "eraseblock.bash"),
    ("elvish", "eraseblock.elv"),
    ("fish", "eraseblock.fish"),
    ("powershell", "eraseblock.ps1"),
    ("zsh", "_eraseblock"),
];

/// Builds everything and replaces the output of an earlier run.
pub(crate) fn run() -> Result<bool> {
    let program = build(TARGET)?;
    let shared = build(SHARED)?;
    let epoch = commit_time()?;
    let dist = repository().join("target/dist");
    let _ = fs::remove_dir_all(&dist);
    fs::create_dir_all(dist.join("completions"))?;
    let command = dist.join("eraseblock");
    fs::copy(&program, &command)?;
    ensure_static(&command)?;
    for (shell, file) in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        fs::write(dist.join("completions").join(file), script)?;
    }
    output(Command::new(&command).arg("man").arg(dist.join("man")))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        fs::copy(repository().join(name), dist.join(name))?;
    }
    fs::write(dist.join("eraseblock.spdx.json"), sbom::document(TARGET)?)?;
    deb::write(&shared, &dist, &epoch)?;
    oci::write(&command, &dist, &epoch)?;
    source::write(&dist, &epoch)?;
    let sums = sums(&dist)?;
    fs::write(dist.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    println!("{} files in {}", sums.lines().count() + 1, dist.display());
    Ok(true)
}

/// The time of the commit, in seconds since 1970.
fn commit_time() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(repository());
    Ok(output(&mut git)?.trim().to_owned())
}

/// Builds the command for a target.
fn build(target: &str) -> Result<PathBuf> {
    let root = repository();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let (root_text, home) = (root.display(), home.context("neither CARGO_HOME nor HOME is set")?);
    let home = home.display();
    let status = cargo()
        .args(["build", "--quiet", "--locked", "--profile", "portable", "--target", target])
        .args(["--package", "eraseblock-cli"])
        .env("CARGO_INCREMENTAL", "0")
        .env(
            "RUSTFLAGS",
            format!(
                "--remap-path-prefix={root_text}=/eraseblock --remap-path-prefix={home}=/cargo"
            ),
        )
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CFLAGS", format!("-ffile-prefix-map={home}=/cargo"))
        // The allocator contains the time at which it was compiled. Its object is kept from one
        // commit to the next, so the time is no commit's.
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(&root)
        .status()?;
    ensure!(
        status.success(),
        "cannot build for {target} (hint: rustup target add {target}, and musl-gcc of the Debian \
         package musl-tools)"
    );
    Ok(root.join("target").join(target).join("portable/eraseblock"))
}

/// Fails if the program asks for an interpreter or contains a path of this machine.
fn ensure_static(program: &Path) -> Result<()> {
    let headers =
        output(Command::new("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    ensure!(!headers.contains("INTERP"), "{} is not static", program.display());
    let bytes = fs::read(program)?;
    let root = repository().display().to_string();
    let is_there = bytes.windows(root.len()).any(|window| window == root.as_bytes());
    ensure!(!is_there, "{} contains the path {root}", program.display());
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
