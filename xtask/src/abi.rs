//! The binary interface of the C library, as its header describes it: libabigail compares it with
//! that of another revision.
//!
//! Both libraries are made of their headers alone, with a body for each function: what a program
//! was compiled against is in the header, and debug information of Rust describes more than that.

use crate::command::{output, repository};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HEADER: &str = "crates/capi/include/eraseblock.h";

/// Fails if programs that were compiled with the header of a revision do not work with this one;
/// functions may have been added. Returns how many functions were compared, none if the revision
/// has no C library.
pub(crate) fn ensure_compatible(revision: &str) -> Result<usize> {
    let mut git = Command::new("git");
    git.arg("show").arg(format!("{revision}:{HEADER}")).current_dir(repository());
    let Ok(old) = output(&mut git) else { return Ok(0) };
    let new = fs::read_to_string(repository().join(HEADER))?;
    let report = differences(&old, &new)?;
    ensure!(report.is_empty(), "the C library breaks programs of {revision}:\n{report}");
    Ok(functions(&old).1)
}

/// What libabigail says has changed; nothing if only functions were added.
fn differences(old: &str, new: &str) -> Result<String> {
    let home = tempfile::tempdir()?;
    let (old, new) = (library(old, home.path(), "old")?, library(new, home.path(), "new")?);
    let mut diff = Command::new("abidiff");
    diff.arg("--no-added-syms").arg(old).arg(new).stdin(Stdio::null());
    let done = diff.output().context("abidiff (hint: apt-get install abigail-tools)")?;
    let report = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    // The bits of its status: 1 and 2 for errors, 4 for a change, 8 for one that breaks programs.
    match done.status.code() {
        Some(0) => Ok(String::new()),
        Some(4 | 12) => Ok(report),
        _ => bail!("abidiff: {report}{}", String::from_utf8_lossy(&done.stderr)),
    }
}

/// Compiles a header to a library.
fn library(header: &str, folder: &Path, name: &str) -> Result<PathBuf> {
    let (source, file) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    let (text, count) = functions(header);
    ensure!(count > 0, "the header {name} has no functions");
    fs::write(&source, text)?;
    output(
        Command::new("gcc").args(["-shared", "-fPIC", "-g", "-w", "-o"]).arg(&file).arg(source),
    )?;
    Ok(file)
}

/// The header with a body for each function, and their number. Declarations begin at the start of a
/// line, as cbindgen writes them.
fn functions(header: &str) -> (String, usize) {
    let (mut text, mut count, mut is_inside) = (String::new(), 0, false);
    for line in header.lines() {
        let is_other = [" ", "/", "#", "}", "typedef"].iter().any(|begin| line.starts_with(begin));
        is_inside |= !is_other && line.contains('(');
        match line.strip_suffix(");").filter(|_| is_inside) {
            Some(declared) => {
                let _ = writeln!(text, "{declared}) {{ __builtin_trap(); }}");
                (count, is_inside) = (count + 1, false);
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    (text, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find_program;

    #[test]
    fn changes_that_break_programs_are_found() {
        let header = fs::read_to_string(repository().join(HEADER)).unwrap();
        let (text, count) = functions(&header);
        let named = |text: &str| text.matches("\nint eb_").count();
        assert!(count >= 30 && named(&text) == named(&header), "{count} functions");
        if find_program("abidiff").is_none() {
            return;
        }
        let more = header.replace("int eb_build(", "int eb_more(void);\nint eb_build(");
        assert_eq!(differences(&header, &more).unwrap(), "");
        for (from, to, says) in [
            ("  uint32_t peb;\n", "  uint64_t peb;\n", "type size changed"),
            ("  uint32_t page;\n", "", "data member deletion"),
            ("int eb_build(", "int64_t eb_build(", "return type changed"),
            ("int eb_build(", "int eb_built(", "1 Removed"),
        ] {
            let changed = header.replacen(from, to, 1);
            assert_ne!(changed, header, "{from}");
            let report = differences(&header, &changed).unwrap();
            assert!(report.contains(says), "{from}: {report}");
        }
    }
}
