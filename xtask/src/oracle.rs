//! The kernel oracle: real Linux decides whether images are right.

mod linux_writes;

use crate::command::{find_program, repository};
use crate::guest::Guest;
use crate::kernel::{Kernel, cache_dir};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Job directories of the guest.
    pub(crate) work: PathBuf,
    /// Images made by Linux, one directory each.
    pub(crate) images: PathBuf,
    /// The static `oracle-manifest`.
    pub(crate) manifest_program: PathBuf,
}

/// Counts and prints the outcome of named checks.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    only: Option<String>,
    passed: u32,
    failed: u32,
}

impl Checks {
    /// Whether a check was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Prints a line that is no check.
    pub(crate) fn note(&self, text: &str) {
        println!("      {text}");
    }

    /// Prints and counts the outcome of a check.
    pub(crate) fn record(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("pass  {name}");
            }
            Err(reason) => {
                self.failed += 1;
                println!("FAIL  {name}: {reason}");
            }
        }
    }
}

/// `cargo xtask oracle`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let mut checks = Checks::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--only" => checks.only = Some(rest.next().context("--only needs a name")?.clone()),
            other => bail!("unknown argument {other}"),
        }
    }
    let guest = Guest::new(Kernel::prepare()?);
    let paths = Paths {
        work: cache_dir().join("work"),
        images: cache_dir().join("images"),
        manifest_program: build_manifest_program()?,
    };
    linux_writes::run(&guest, &paths, &mut checks)?;
    println!("{} passed, {} failed", checks.passed, checks.failed);
    Ok(checks.failed == 0)
}

/// Builds `oracle-manifest` without shared libraries, so that it runs in the guest.
fn build_manifest_program() -> Result<PathBuf> {
    let target = "x86_64-unknown-linux-gnu";
    let dir = cache_dir().join("build");
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).or_else(|| find_program("cargo"));
    let status = Command::new(cargo.context("cargo is not in PATH")?)
        .args(["build", "--quiet", "--release", "--package", "oracle-manifest"])
        .args(["--target", target, "--target-dir"])
        .arg(&dir)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(repository())
        .status()?;
    if !status.success() {
        bail!("cannot build oracle-manifest");
    }
    Ok(dir.join(target).join("release/oracle-manifest"))
}
