//! `cargo xtask python`: tests of the Python package, in a virtual environment that contains nothing else.
//!
//! The package as it lies in the repository is tested, with a module from the build that all steps share.
//! With `--wheel`, the wheel of `cargo xtask wheel` is built, examined, and tested instead; then its plug-ins are,
//! in the programs of others as they come from their registry.

use crate::command::{cargo, cargo_in, find_program, output, repository};
use crate::copy::export;
use crate::kernel::cache_dir;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Pythons that the package is for; the first that is there is taken.
const PYTHONS: [&str; 6] =
    ["python3", "python3.11", "python3.12", "python3.13", "python3.14", "python3.15"];

/// Crates whose tests have images that other programs and other kernels wrote.
const GOLDEN: [&str; 3] = ["axfs", "logfs", "yaffs"];

/// What builds and examines the wheel.
const BUILDERS: [&str; 6] = [
    "maturin==1.16.0",
    "ziglang==0.17.1",
    "auditwheel==6.8.2",
    "abi3audit==0.0.26",
    "mypy==2.4.1",
    "pyright==1.1.414",
];

/// The programs that the plug-ins are for, and what their tests need.
const HOSTS: [&str; 9] = [
    "fsspec==2026.9.0",
    "pytest",
    "pandas",
    "dask[bag]",
    "ratarmount[fsspec]==1.3.0",
    "unblob==26.6.4",
    "dissect.target==3.25.1",
    "ray[data]==2.60.0",
    "duckdb",
];

/// Runs the tests and prints their counts; false when one failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let home = repository().join("target/python");
    let images = home.join("images");
    prepare(&images)?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let profile = match args[..] {
        [] => {
            let python = environment(&home.join("environment"), &module()?)?;
            return suite(&python, &images, &[]);
        }
        ["--wheel"] => PROFILE,
        ["--wheel", "--profile", profile] => profile,
        _ => bail!("unknown arguments {args:?}"),
    };
    let wheel = build_wheel(profile)?;
    examine(&wheel)?;
    let mut passed = true;
    for (version, interpreter) in interpreters() {
        println!("Python {version}:");
        let python = installed(&home.join("wheel"), &interpreter, &wheel, &[])?;
        passed &= suite(&python, &images, &[])?;
    }
    planted(&home.join(PLANTED))?;
    let python = installed(&home.join("plugins"), &interpreter()?, &wheel, &HOSTS)?;
    Ok(suite(&python, &images, &["plugins"])? && passed)
}

/// The profile of a wheel that others use: optimised, without what only a debugger reads.
const PROFILE: &str = "portable";

/// Builds the wheel into `target/wheels` and prints its path; `--profile NAME` chooses another profile.
pub(crate) fn wheel(args: &[String]) -> Result<bool> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let profile = match args[..] {
        [] => PROFILE,
        ["--profile", profile] => profile,
        _ => bail!("unknown arguments {args:?}"),
    };
    println!("{}", build_wheel(profile)?.display());
    Ok(true)
}

/// Builds the wheel with maturin and returns its path.
fn build_wheel(profile: &str) -> Result<PathBuf> {
    let root = repository();
    let python = tools()?;
    let out = root.join("target/wheels");
    let _ = fs::remove_dir_all(&out);
    let mut command = Command::new(python.with_file_name("maturin"));
    command.args(["build", "--profile", profile, "--interpreter"]).arg(&python);
    command.arg("--out").arg(&out).current_dir(root.join("python")).stdin(Stdio::null());
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    // Output of cargo goes to the terminal: without it, a wait for the lock of another build looks
    // like a maturin that stands still.
    ensure!(command.status()?.success(), "the wheel cannot be built");
    let mut wheels = fs::read_dir(&out)?.flatten().map(|entry| entry.path());
    wheels.find(|path| path.extension() == Some(OsStr::new("whl"))).context("no wheel")
}

/// Returns the Python of an environment with what builds and examines wheels.
pub(crate) fn tools() -> Result<PathBuf> {
    let folder = repository().join("target/tools/wheel");
    let python = folder.join("bin/python");
    let marker = folder.join("installed");
    if fs::read_to_string(&marker).ok().as_deref() != Some(&*BUILDERS.join("\n")) {
        let _ = fs::remove_dir_all(&folder);
        output(Command::new(interpreter()?).args(["-m", "venv"]).arg(&folder))?;
        output(Command::new(&python).args(["-m", "pip", "-q", "install"]).args(BUILDERS))?;
        fs::write(marker, BUILDERS.join("\n"))?;
    }
    Ok(python)
}

/// Makes an environment with the wheel and these packages, and returns its Python.
pub(crate) fn installed(
    folder: &Path,
    interpreter: &Path,
    wheel: &Path,
    packages: &[&str],
) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    output(Command::new(interpreter).args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "-q", "install"]).arg(wheel).args(packages);
    if packages.is_empty() {
        install.args(["--no-index", "--no-deps"]);
    }
    output(&mut install)?;
    Ok(python)
}

/// Examines a wheel: one module for all versions of Python, and types that are complete.
fn examine(wheel: &Path) -> Result<()> {
    let tools = tools()?;
    let tool = |name: &str| {
        let mut command = Command::new(tools.with_file_name(name));
        command.current_dir(repository().join("target/python"));
        command
    };
    output(tool("abi3audit").args(["--strict", "--report"]).arg(wheel))?;
    println!("{}", output(tool("auditwheel").arg("show").arg(wheel))?.trim());
    output(
        Command::new(&tools).args(["-m", "pip", "-q", "install", "--force-reinstall"]).arg(wheel),
    )?;
    output(tool("mypy").args(["--strict"]).arg(repository().join("python/tests/client.py")))?;
    output(tool("stubtest").arg("eraseblock._native"))?;
    let mut pyright = tool("pyright");
    pyright.args(["--ignoreexternal", "--outputjson", "--verifytypes", "eraseblock"]);
    // pyright looks for packages in the environment that is active.
    pyright
        .env("VIRTUAL_ENV", repository().join("target/tools/wheel"))
        .env("PATH", search(&tools)?);
    // It fails because of the modules for other programs, whose classes inherit from theirs.
    let found: Types = serde_json::from_slice(&pyright.stdin(Stdio::null()).output()?.stdout)?;
    let symbols = found.type_completeness.symbols;
    let ours = |symbol: &&Symbol| {
        symbol.is_exported && !PLUGINS.iter().any(|module| symbol.name.starts_with(module))
    };
    let unknown: Vec<&str> = symbols
        .iter()
        .filter(ours)
        .filter(|symbol| !symbol.is_type_known || symbol.is_type_ambiguous)
        .map(|symbol| symbol.name.as_str())
        .collect();
    let known = symbols.iter().filter(ours).count() - unknown.len();
    ensure!(unknown.is_empty() && known > 50, "{known} types are known, not those of {unknown:?}");
    println!("pyright: the types of all {known} exported symbols are known");
    Ok(())
}

/// Modules for other programs.
const PLUGINS: [&str; 2] = ["eraseblock.fsspec", "eraseblock.unblob"];

/// What pyright says about the types of a package.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Types {
    type_completeness: Completeness,
}

#[derive(Deserialize)]
struct Completeness {
    symbols: Vec<Symbol>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Symbol {
    name: String,
    is_exported: bool,
    is_type_known: bool,
    is_type_ambiguous: bool,
}

/// Returns the search path of programs, with those next to a Python first.
pub(crate) fn search(python: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = python.parent().map(Path::to_owned);
    Ok(std::env::join_paths(beside.into_iter().chain(std::env::split_paths(&path)))?)
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
pub(crate) fn interpreter() -> Result<PathBuf> {
    let found = PYTHONS.into_iter().filter_map(find_program).find(|path| version(path).is_some());
    found.context("no Python from 3.11 on (hint: make setup)")
}

/// Returns a Python of each version that the package is for: those of the search path, and those that
/// pyenv has installed.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let versions = std::env::var_os("PYENV_ROOT").map(|root| Path::new(&root).join("versions"));
    let versions = versions.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let of_pyenv = versions.flatten().map(|entry| entry.path().join("bin/python3"));
    let all = PYTHONS.into_iter().filter_map(find_program).chain(of_pyenv);
    all.filter_map(|path| Some((version(&path)?, path))).collect()
}

/// Returns the version of a Python, as 3.11, if the package is for it.
fn version(python: &Path) -> Option<String> {
    let question = "import sys; print('%d.%d' % sys.version_info[:2]); \
                    raise SystemExit(sys.version_info < (3, 11))";
    let version = output(Command::new(python).args(["-c", question])).ok()?;
    Some(version.trim().to_owned())
}

/// The folder of the command with a bug.
const PLANTED: &str = "planted";

/// Builds the command with a bug, in a copy of the sources: tests of campaigns need a violation.
fn planted(copy: &Path) -> Result<()> {
    let target = copy.with_extension("target");
    export(copy)?;
    let patch = repository().join("python/tests/plugins/unsynced.patch");
    let mut git = Command::new("git");
    // Without the repository around the copy, in which git would look for the files.
    git.current_dir(copy).env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy));
    output(git.arg("apply").arg(&patch))?;
    let mut build = cargo_in(copy);
    build.args(["build", "--quiet", "--locked", "--package", "eraseblock-cli", "--target-dir"]);
    let status = build.arg(&target).env_remove("RUSTC_WORKSPACE_WRAPPER").status()?;
    ensure!(status.success(), "the command with a bug cannot be built");
    fs::copy(target.join("debug/eraseblock"), copy.join("eraseblock"))?;
    Ok(())
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

/// Runs the tests of a folder, all without plug-ins if none is named; they print their counts.
fn suite(python: &Path, images: &Path, folder: &[&str]) -> Result<bool> {
    let mut command = Command::new(python);
    command.arg("-I").arg(repository().join("python/tests")).args(folder);
    command.env("ERASEBLOCK_IMAGES", images).env("ERASEBLOCK_REPOSITORY", repository());
    command.env("ERASEBLOCK_PROGRAM", repository().join("target/debug/eraseblock"));
    command.env(
        "ERASEBLOCK_PLANTED",
        repository().join("target/python").join(PLANTED).join("eraseblock"),
    );
    command.current_dir(images).stdin(Stdio::null());
    Ok(command.status()?.success())
}

/// Puts together the images whose trees are known: the golden ones, unpacked, and
/// those that the oracle has made.
pub(crate) fn prepare(images: &Path) -> Result<()> {
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
