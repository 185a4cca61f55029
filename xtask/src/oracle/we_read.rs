//! `we-read`: what our reader sees in images written by Linux is what Linux sees.

use crate::command::output;
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::{Checks, Paths, linux_writes};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    let with_scenario = |image: String| format!("we-read/{image}");
    linux_writes::image_names().into_iter().map(with_scenario).collect()
}

/// Compares every image that `linux-writes` left.
pub(crate) fn run(paths: &Paths, checks: &mut Checks) {
    for image in linux_writes::image_names() {
        let name = format!("we-read/{image}");
        if checks.wants(&name) {
            let outcome = compare(paths, &paths.images.join(image));
            checks.record(&name, outcome);
        }
    }
}

fn compare(paths: &Paths, dir: &Path) -> Result<()> {
    let expected = fs::read_to_string(dir.join("manifest"))
        .context("there is no such image (hint: linux-writes makes it)")?;
    let image = dir.join("image.bin");
    let mut target = image.clone().into_os_string();
    target.push(":data");
    let found = output(Command::new(&paths.ours).arg("manifest").arg(target))?;
    let differences = differences(&expected, &found, Ignore::Nothing);
    ensure!(differences.is_empty(), summary(&differences));
    Ok(())
}
