//! pjdfstest: the effects and refusals of each system call.

pub(super) mod linux;

use super::mounts::Kind;
use super::score::Score;
use super::tool;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Its configuration: names of two users, and the supported optional behaviour.
const CONFIGURATION: &str = "\
[features]
posix_fallocate = {}
RENAME
utime_now = {}
utimensat = {}
[settings]
naptime = NAP
allow_remount = REMOUNTS
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// The mount(8) that pjdfstest uses. The real one must not look for a helper for the kind of mount;
/// and a FUSE mount is busy until the last closed file has been released.
const REMOUNT: &str = "#!/bin/sh
for _ in 1 2 3 4 5 6 7 8 9 10; do
    /bin/mount -i \"$@\" 2>/dev/null && exit 0
    sleep 0.1
done
exec /bin/mount -i \"$@\"
";

/// Tests that remount; the first run skips them.
const REMOUNTING: u32 = 13;

/// Skipped everywhere, with the reason.
const LINK_COUNT_MAX: &str = "link::link_count_max: Linux's pathconf(2) knows no limit of names \
                              for FUSE, and none for UBIFS or JFFS2 either";

/// Tests that fail, as they do on Linux's own file system of that kind.
struct Excluded {
    names: &'static [&'static str],
    why: &'static str,
}

const SUBSECOND: Excluded = Excluded {
    names: &["utimensat::subsecond"],
    why: "times are kept in whole seconds: Linux takes the granularity of UBIFS from a superblock \
          that says one second, and JFFS2 has no room for more",
};

const JFFS2_CTIME: Excluded = Excluded {
    names: &[
        "link::changed_ctime_success",
        "unlink::update_ctime_success",
        "rename::to_multiply_linked",
    ],
    why: "JFFS2 writes no inode when one of its names comes or goes: its ctime stays",
};

const JFFS2_Y2038: Excluded = Excluded {
    names: &["utimensat::y2038"],
    why: "JFFS2 keeps times in 32 bits: from 1970 to 2106",
};

/// Skipped here; the name is that of the suite.
const JFFS2_RENAME: [Excluded; 1] = [Excluded {
    names: &["rename::changed_ctime_success"],
    why: "for file systems whose rename(2) changes the ctime, which JFFS2 does not",
}];

impl Kind {
    fn excluded(self) -> &'static [Excluded] {
        match self {
            Self::Ubifs => &[SUBSECOND],
            Self::Jffs2 => &[SUBSECOND, JFFS2_CTIME, JFFS2_Y2038],
            Self::Model => &[],
        }
    }

    /// Returns the tests skipped because rename(2) does not change the ctime of what it moves.
    fn skipped(self) -> &'static [Excluded] {
        if self == Self::Jffs2 { &JFFS2_RENAME } else { &[] }
    }
}

/// Runs the suite twice: everything, and the tests that remount. An earlier test of the suite
/// leaves a removed file open, and no kernel makes such a mount read-only.
pub(super) fn run(kind: Kind, work: &Path, dir: &Path) -> Result<Score> {
    let shims = work.join("bin");
    fs::create_dir_all(&shims)?;
    fs::write(shims.join("mount"), REMOUNT)?;
    fs::set_permissions(shims.join("mount"), fs::Permissions::from_mode(0o755))?;
    let mut remarks = vec![format!("excluded: {LINK_COUNT_MAX}")];
    let mut skipped = 1;
    if !kind.skipped().is_empty() {
        skipped += 7;
    }
    for Excluded { names, why } in kind.excluded().iter().chain(kind.skipped()) {
        remarks.push(format!("excluded: {}: {why}", names.join(", ")));
    }
    let (passed, known) = part(kind, work, dir, "everything", false, skipped + REMOUNTING)?;
    let (remounting, _) = part(kind, work, dir, "erofs", true, 0)?;
    let unit = format!("tests, {remounting} of them in a run of their own that remounts");
    let score = Score::passed("pjdfstest", kind, passed + remounting, unit);
    Ok(Score { excluded: skipped + known, remarks, ..score })
}

/// Runs the suite or a part of it; returns how many tests passed, and how many excluded ones
/// failed.
fn part(
    kind: Kind,
    work: &Path,
    dir: &Path,
    what: &str,
    remounts: bool,
    skipped: u32,
) -> Result<(u32, u32)> {
    let configuration = work.join("pjdfstest.toml");
    // Naps must be longer than the granularity of times.
    let nap = if kind == Kind::Model { "0.01" } else { "1.02" };
    let rename = if kind.skipped().is_empty() { "rename_ctime = {}" } else { "" };
    let text = CONFIGURATION.replace("REMOUNTS", &remounts.to_string());
    fs::write(&configuration, text.replace("NAP", nap).replace("RENAME", rename))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = tool("pjdfstest");
    command.arg("-c").arg(&configuration).arg("-p").arg(dir).args(["-s", "/dev/shm"]);
    if remounts {
        command.arg(what);
    }
    command.env("PATH", format!("{}:{path}", work.join("bin").display()));
    let output = command.output().context("pjdfstest")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = work.join(format!("pjdfstest-{what}.log"));
    fs::write(&log, &text)?;
    let summary = text.lines().find(|line| line.starts_with("Summary:")).unwrap_or("no summary");
    let summary = summary.trim_start_matches("Summary: ");
    let failed = failed(&text);
    let unexpected: Vec<&str> =
        failed.iter().filter(|name| !is_excluded(kind, name)).copied().collect();
    ensure!(unexpected.is_empty(), "{} fail: see {}", unexpected.join(", "), log.display());
    ensure!(output.status.success() || !failed.is_empty(), "see {}", log.display());
    let missed = format!(" {skipped} skipped");
    ensure!(summary.contains(&missed), "{summary}: expected {skipped} skipped");
    if !remounts {
        for name in kind.excluded().iter().flat_map(|excluded| excluded.names) {
            let fails = failed.iter().any(|failed| failed.starts_with(name));
            ensure!(fails, "{name} does not fail any more: it is excluded for nothing");
        }
    }
    let passed = summary.split(", ").find_map(|part| part.strip_suffix(" passed")?.parse().ok());
    Ok((passed.with_context(|| summary.to_owned())?, u32::try_from(failed.len())?))
}

/// Returns the names of the tests that failed.
fn failed(log: &str) -> BTreeSet<&str> {
    let name = |line| str::strip_suffix(line, "FAILED").map(str::trim);
    log.lines().filter_map(|line: &str| name(line.trim_end())).collect()
}

fn is_excluded(kind: Kind, test: &str) -> bool {
    kind.excluded().iter().flat_map(|excluded| excluded.names).any(|name| test.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_from_the_log() {
        let log = "a::b      ok\nutimensat::subsecond    FAILED\n\tassertion\nx::y::fifo FAILED\n";
        let failed = failed(log);
        assert_eq!(
            failed.iter().copied().collect::<Vec<_>>(),
            ["utimensat::subsecond", "x::y::fifo"]
        );
        assert!(is_excluded(Kind::Ubifs, "utimensat::subsecond"));
        assert!(!is_excluded(Kind::Model, "utimensat::subsecond"));
        assert!(is_excluded(Kind::Jffs2, "link::changed_ctime_success::fifo"));
    }
}
