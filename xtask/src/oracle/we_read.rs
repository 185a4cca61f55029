//! `we-read`: our reader must see the same as Linux in images written by Linux.

use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::{Checks, Paths, jffs2_writes, linux_writes};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    images().map(|(image, _)| format!("we-read/{image}")).collect()
}

/// Returns all images with the part of a target that names the volume in them.
fn images() -> impl Iterator<Item = (String, &'static str)> {
    let ubi = linux_writes::image_names().into_iter().map(|image| (image, ":data"));
    ubi.chain(jffs2_writes::image_names().into_iter().map(|image| (image, "")))
}

/// Compares every image that `linux-writes` left.
pub(crate) fn run(paths: &Paths, checks: &mut Checks) {
    for (image, volume) in images() {
        let name = format!("we-read/{image}");
        if checks.wants(&name) {
            let outcome = compare(&paths.ours, &paths.images.join(image), volume);
            checks.record(&name, outcome);
        }
    }
}

/// Returns the output of the command. For a JFFS2 that was cut, the findings include torn nodes and
/// the exit code is 1; only the tree is compared.
fn delivered(command: &mut Command, may_find: bool) -> Result<String> {
    let done = command.stdin(Stdio::null()).output()?;
    let is_done = done.status.success() || (may_find && done.status.code() == Some(1));
    ensure!(is_done, "{}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn compare(ours: &Path, dir: &Path, volume: &str) -> Result<()> {
    let expected = fs::read_to_string(dir.join("manifest"))
        .context("there is no such image (hint: linux-writes makes it)")?;
    let image = dir.join("image.bin");
    let mut target = image.clone().into_os_string();
    target.push(volume);
    let found = delivered(Command::new(ours).arg("manifest").arg(target), volume.is_empty())?;
    let differences = differences(&expected, &found, Ignore::Nothing);
    ensure!(differences.is_empty(), summary(&differences));
    Ok(())
}
