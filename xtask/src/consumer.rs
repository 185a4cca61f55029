//! `cargo xtask consumer`: a project outside the repository that has nothing but the packaged crates.
//!
//! Every crate that would be published is unpacked into a directory registry, which also
//! gets what `cargo vendor` fetches of others. No path and no patch of the repository is within reach there.

use crate::command::{cargo, cargo_in, output, repository};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The program: the three lines of the front page, after an image was made for them.
const MAIN: &str = r#"//! The front page of eraseblock.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    eraseblock::build("board.toml")?.write_to("board.ubi")?;

    let motd = eraseblock::open("board.ubi")?.volume("rootfs")?.read("/etc/motd")?;
    eraseblock::build("board.toml")?.write_to("board.ubi")?;
    eraseblock::edit("board.ubi")?.volume("rootfs")?.write("/etc/motd", b"hello\n")?;

    let changed = eraseblock::open("board.ubi")?.volume("rootfs")?.read("/etc/motd")?;
    print!("{}{}", String::from_utf8(motd)?, String::from_utf8(changed)?);
    Ok(())
}
"#;

const LAYOUT: &str = "flash.part = 'W25N01GV'\n[[volume]]\nname = 'rootfs'\nsize = '8MiB'\n\
                      content = { ubifs = 'rootfs' }\n";

/// Packages everything and runs the program.
pub(crate) fn run() -> Result<bool> {
    let work = tempfile::tempdir()?;
    let registry = work.path().join("registry");
    vendor(&registry)?;
    let packaged = package(work.path(), &registry)?;
    let project = project(work.path(), &registry)?;
    let mut command = cargo_in(&project);
    command.args(["run", "--quiet", "--offline"]);
    command.env("CARGO_TARGET_DIR", repository().join("target/consumer"));
    command.env_remove("RUSTFLAGS");
    let printed = output(&mut command)?;
    ensure!(printed == "welcome\nhello\n", "the program printed {printed:?}");
    println!("{packaged} passed, 0 failed: crates packaged, the front page runs on them alone");
    Ok(true)
}

/// Fetches the crates of others.
fn vendor(registry: &Path) -> Result<()> {
    let mut command = cargo();
    command.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]).arg(registry);
    output(command.current_dir(repository()))?;
    Ok(())
}

/// Packages the crates of the workspace and unpacks them into the registry; returns their number.
fn package(work: &Path, registry: &Path) -> Result<usize> {
    let mut command = cargo();
    command.args(["package", "--quiet", "--workspace", "--no-verify", "--allow-dirty"]);
    command.arg("--target-dir").arg(work.join("target"));
    output(command.current_dir(repository()))?;
    let mut count = 0;
    for entry in fs::read_dir(work.join("target/package"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "crate") {
            continue;
        }
        let mut tar = Command::new("tar");
        output(tar.arg("-xzf").arg(&path).arg("-C").arg(registry))?;
        let name = path.file_stem().context("a package has a name")?;
        let digest = Sha256::digest(fs::read(&path)?);
        let sums = json!({ "files": {}, "package": format!("{digest:x}") });
        fs::write(registry.join(name).join(".cargo-checksum.json"), sums.to_string())?;
        count += 1;
    }
    Ok(count)
}

/// Makes the project: one dependency, one source file, and the folder that its image is built from.
fn project(work: &Path, registry: &Path) -> Result<std::path::PathBuf> {
    let project = work.join("project");
    fs::create_dir_all(project.join("src"))?;
    fs::create_dir_all(project.join(".cargo"))?;
    fs::create_dir_all(project.join("rootfs/etc"))?;
    let version = env!("CARGO_PKG_VERSION");
    let manifest = format!(
        "[package]\nname = \"front-page\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\neraseblock = \"={version}\"\n\n[workspace]\n"
    );
    let source = format!(
        "[source.crates-io]\nreplace-with = \"directory\"\n\n[source.directory]\ndirectory = {:?}\n",
        registry.display().to_string()
    );
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join(".cargo/config.toml"), source)?;
    fs::write(project.join("src/main.rs"), MAIN)?;
    fs::write(project.join("board.toml"), LAYOUT)?;
    fs::write(project.join("rootfs/etc/motd"), "welcome\n")?;
    Ok(project)
}
