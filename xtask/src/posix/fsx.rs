//! fsx: reads and writes one file at random, also through mappings, and compares it with the
//! expected content after every operation.

use super::mounts::Kind;
use super::score::Score;
use super::tool;
use crate::command::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The supported features of fsx; flash file systems do not allocate or punch.
const CONFIGURATION: &str = "\
flen = 262144
[opsize]
max = 65536
[weights]
close_open = 1
invalidate = 1
read = 10
write = 10
mapread = 5
mapwrite = 5
truncate = 2
fsync = 0.5
fdatasync = 0.5
sendfile = 2
copy_file_range = 2
";

pub(super) fn run(
    kind: Kind,
    work: &Path,
    dir: &Path,
    (seeds, count): (u32, u32),
) -> Result<Score> {
    let configuration = work.join("fsx.toml");
    fs::write(&configuration, CONFIGURATION)?;
    for seed in 1..=seeds {
        let mut command = tool("fsx");
        command.arg("-f").arg(&configuration).arg("-P").arg(work);
        command.args(["-S", &seed.to_string(), "-N", &count.to_string()]);
        output(command.arg(dir.join("fsx"))).with_context(|| format!("fsx, seed {seed}"))?;
    }
    let unit = format!("seeds of {count} operations, also through mappings, without a mismatch");
    Ok(Score::passed("fsx", kind, seeds, unit))
}
