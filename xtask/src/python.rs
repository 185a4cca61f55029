//! `cargo xtask python`: tests of the Python package, in a virtual environment that contains nothing else.
//!
//! The package as it lies in the repository is tested, with a module from the build that all steps share.

use crate::command::{cargo, find_program, output, repository};
use crate::kernel::cache_dir;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Pythons that the package is for; the first that is there is taken.
const PYTHONS: [&str; 6] =
    ["python3", "python3.11", "python3.12", "python3.13", "python3.14", "python3.15"];

/// Crates whose tests have images that other programs and other kernels wrote.
const GOLDEN: [&str; 3] = ["axfs", "logfs", "yaffs"];

/// Runs the tests and prints their counts; false when one failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    ensure!(args.is_empty(), "unknown arguments {args:?}");
    let home = repository().join("target/python");
    let images = home.join("images");
    prepare(&images)?;
    let python = environment(&home.join("environment"), &module()?)?;
    suite(&python, &images)
}

/// Builds the module.
fn module() -> Result<PathBuf> {
    let root = repository();
    let mut command = cargo();
    command.args(["build", "--quiet", "--package", "eraseblock-python", "--lib"]);
    ensure!(command.current_dir(&root).status()?.success(), "the module cannot be built");
    Ok(root.join("target/debug/lib_native.so"))
}

/// Returns a Python that the package is for.
fn interpreter() -> Result<PathBuf> {
    let question = "import sys; raise SystemExit(sys.version_info < (3, 11))";
    let fits = |path: &PathBuf| output(Command::new(path).args(["-c", question])).is_ok();
    let found = PYTHONS.into_iter().filter_map(find_program).find(fits);
    found.context("no Python from 3.11 on (hint: make setup)")
}

/// Makes an environment with nothing but the package, and returns its Python.
fn environment(folder: &Path, module: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    let mut make = Command::new(interpreter()?);
    output(make.args(["-m", "venv", "--without-pip"]).arg(folder))?;
    let python = folder.join("bin/python");
    let question = "import site; print(site.getsitepackages()[0])";
    let site = output(Command::new(&python).args(["-c", question]))?;
    let package = Path::new(site.trim()).join("eraseblock");
    copy(&repository().join("python/eraseblock"), &package)?;
    fs::copy(module, package.join("_native.abi3.so"))?;
    Ok(python)
}

/// Runs the tests; they print their counts.
fn suite(python: &Path, images: &Path) -> Result<bool> {
    let mut command = Command::new(python);
    command.arg("-I").arg(repository().join("python/tests"));
    command.env("ERASEBLOCK_IMAGES", images).env("ERASEBLOCK_REPOSITORY", repository());
    command.env("ERASEBLOCK_PROGRAM", repository().join("target/debug/eraseblock"));
    command.current_dir(images).stdin(Stdio::null());
    Ok(command.status()?.success())
}

/// Puts together the images whose trees are known: the golden ones, unpacked, and
/// those that the oracle has made.
fn prepare(images: &Path) -> Result<()> {
    let golden = images.join("golden");
    let _ = fs::remove_dir_all(images);
    fs::create_dir_all(&golden)?;
    for name in GOLDEN {
        let data = repository().join("crates").join(name).join("tests/data");
        for entry in fs::read_dir(&data)? {
            let manifest = entry?.path();
            let packed = manifest.with_extension("img.zst");
            if manifest.extension() != Some(OsStr::new("manifest")) || !packed.exists() {
                continue;
            }
            let stem = manifest.file_stem().unwrap_or_default().to_string_lossy();
            let image = golden.join(format!("{name}-{stem}.img"));
            zstd::stream::copy_decode(File::open(&packed)?, File::create(&image)?)
                .with_context(|| packed.display().to_string())?;
            fs::copy(&manifest, image.with_extension("manifest"))?;
        }
    }
    let linux = cache_dir().join("images");
    if linux.is_dir() {
        symlink(&linux, images.join("linux"))?;
    }
    Ok(())
}

/// Copies the modules of the package.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}
