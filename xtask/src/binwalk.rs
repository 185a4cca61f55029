//! `cargo xtask binwalk`: the signatures for binwalk-ng, which are a workspace of their own, on images
//! that real Linux wrote; and the same images in the unmodified command.

use crate::command::{cargo_in, output, repository, run as run_program};
use crate::kernel::cache_dir;
use crate::python;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// The command as its registry has it; its library is the one that the signatures are for.
const COMMAND: &str = "binwalk-ng@4.0.0";

/// Builds and tests the crate; prints the counts of its tests.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    ensure!(args.is_empty(), "unknown arguments {args:?}");
    let root = repository();
    let hint = "hint: cargo xtask oracle --only linux-writes";
    ensure!(cache_dir().join("images").is_dir(), "Linux has written no images ({hint})");
    let home = root.join("target/binwalk");
    let images = home.join("images");
    python::prepare(&images)?;
    let tools = root.join("target/tools");
    let command = tools.join("bin/binwalk");
    if !command.is_file() {
        let mut install = cargo_in(&root);
        install.args([
            "install",
            "--quiet",
            "--debug",
            "--locked",
            COMMAND,
            "--no-default-features",
        ]);
        output(install.arg("--root").arg(&tools))?;
    }
    let program = root.join("target/debug/eraseblock");
    let mut build = cargo_in(&root);
    build.args(["build", "--quiet", "--package", "eraseblock-cli"]);
    if let Some(wrapper) = std::env::var_os("RUSTC_WORKSPACE_WRAPPER") {
        build.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
    }
    ensure!(build.status()?.success(), "the command cannot be built");
    let readers = readers(&program, &home)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([readers].into_iter().chain(std::env::split_paths(&path)))?;
    let mut test = cargo_in(&root.join("plugins/binwalk-ng"));
    test.args(["test", "--locked", "--target-dir"]).arg(home.join("build"));
    test.env("PATH", path).env("ERASEBLOCK_IMAGES", images).env("ERASEBLOCK_BINWALK", command);
    test.env("ERASEBLOCK_PROGRAM", program);
    Ok(test.status()?.success())
}

/// Makes a folder with the readers that the command looks for, and returns it.
fn readers(program: &Path, home: &Path) -> Result<std::path::PathBuf> {
    let folder = home.join("readers");
    let _ = std::fs::remove_dir_all(&folder);
    let program = program.to_str().context("the path of the repository is not UTF-8")?;
    let dir = folder.to_str().context("the path of the repository is not UTF-8")?;
    run_program(program, ["personalities", "--readers", "--dir", dir])?;
    Ok(folder)
}
