//! The way back: what a user is told when a file system turned read-only, or a check found
//! something. Each kind of trouble has one next step.

use crate::session::say;
use crate::target::held::Volume;
use eraseblock_base::{Findings, Severity};
use eraseblock_fuse::Served;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The next step where the process of a mount has died.
pub(crate) fn dead_mount(dir: &Path) -> String {
    format!("`eraseblock umount {}` takes the dead mount away", dir.display())
}

/// How a failure begins to tell why nothing more is written.
pub(crate) const TURNED: &str = "the file system turned read-only";

/// What a power cut leaves, and the next writable mount repairs.
const REPAIRED: [&str; 20] = [
    "copy-incomplete",
    "dangling-name",
    "fastmap-unusable",
    "group-dropped",
    "inode-unborn",
    "journal-replayed",
    "journal-searched",
    "journal-torn",
    "log-recovered",
    "master-recovered",
    "node-dropped",
    "orphans-removed",
    "program-failed",
    "size-fixed",
    "summary-damaged",
    "table-copy-differs",
    "table-copy-lost",
    "vid-header-torn",
    "xattr-damaged",
    "xref-damaged",
];

/// Content or names that are gone; nothing else hangs on them.
const LOST: [&str; 19] = [
    "acl-damaged",
    "attributes-lost",
    "content-lost",
    "data-corrupt",
    "directory-unreadable",
    "entry-lost",
    "image-cut-short",
    "inode-missing",
    "inode-unreadable",
    "leaf-lost",
    "no-node",
    "node-damaged",
    "older-content",
    "peb-corrupted",
    "read-failed",
    "size-reduced",
    "static-data-corrupt",
    "unreadable",
    "xattr-lost",
];

/// No mount takes the file system, but it can be read.
pub(crate) const NOT_MOUNTABLE: &str = "not-mountable";

/// What concerns the UBI device and its volumes, not a file system.
const OF_UBI: [&str; 7] = [
    "ec-header-damaged",
    "internal-volume",
    "no-ubi-headers",
    "static-volume-incomplete",
    "table-record-damaged",
    "too-many-corrupted-pebs",
    "volume-without-record",
];

/// The next step of a user whose file system turned read-only; it is in no use any more.
pub(crate) fn after_read_only(target: &OsStr) -> String {
    let target = target.display();
    format!(
        "what was durable still is: the next mount replays the journal; `eraseblock check {target}` \
         tells what is left, `eraseblock extract {target} DIR` copies out what can be read"
    )
}

/// What leads on from the findings of a check, one step for each kind of them.
pub(crate) fn steps(findings: &Findings, target: &OsStr) -> Vec<String> {
    let target = target.display();
    let has = |codes: &[&str]| findings.iter().any(|finding| codes.contains(&finding.code));
    let is_refused = has(&[NOT_MOUNTABLE]);
    let is_known = |code| [&REPAIRED[..], &LOST, &OF_UBI].iter().any(|codes| codes.contains(&code));
    let contradicts =
        findings.iter().any(|finding| finding.severity > Severity::Note && !is_known(finding.code));
    let mut steps = Vec::new();
    if has(&REPAIRED) {
        steps.push(format!(
            "what a power cut left is repaired by the next mount for writing, also by `eraseblock \
             edit {target} -c sync`"
        ));
    }
    if has(&LOST) {
        steps.push(format!(
            "what was at the damaged places is lost: `eraseblock extract {target} DIR` copies out \
             everything else and names what lacks something, with --keep-damaged also that"
        ));
    }
    if has(&OF_UBI) {
        steps.push(
            "`eraseblock info` and `eraseblock ubi wear` tell about the UBI device; `eraseblock ubi \
             update TARGET:VOLUME FILE` writes a damaged volume anew"
                .to_owned(),
        );
    }
    if is_refused {
        steps.push(format!(
            "no mount takes it, but it can still be read: `eraseblock extract {target} DIR` copies \
             out what is left, `eraseblock mkfs` makes a file system of that"
        ));
    } else if contradicts {
        steps.push(format!(
            "a mount for writing may turn read-only over this: `eraseblock extract {target} DIR` \
             copies everything out, `eraseblock mkfs` makes a file system of it anew"
        ));
    }
    steps
}

/// One file system in use.
struct Watched {
    fs: Arc<dyn eraseblock_vfs::WritableFileSystem>,
    name: String,
    is_told: AtomicBool,
}

/// Tells it once when one of several file systems in use turned read-only.
pub(crate) struct Alarm(Vec<Watched>);

impl Alarm {
    /// Watches those of the volumes that are writable.
    pub(crate) fn new(volumes: &[Volume]) -> Arc<Self> {
        let watched = volumes.iter().filter_map(|volume| match &volume.served {
            Served::ReadOnly(_) => None,
            Served::ReadWrite(fs) => {
                let name = volume.target.display().to_string();
                Some(Watched { fs: Arc::clone(fs), name, is_told: AtomicBool::new(false) })
            }
        });
        Arc::new(Self(watched.collect()))
    }

    /// Looks, and tells what is new on standard error.
    pub(crate) fn look(&self) {
        for watched in self.0.iter().filter(|watched| !watched.is_told.load(Ordering::Relaxed)) {
            let Some(reason) = watched.fs.why_read_only() else { continue };
            if !watched.is_told.swap(true, Ordering::Relaxed) {
                let name = &watched.name;
                say(&format!("error: {name}: {TURNED}: {reason}"));
                say(&format!("hint: {}", while_in_use(name)));
            }
        }
    }
}

/// The next step while programs still use the file system.
pub(crate) fn while_in_use(target: &str) -> String {
    format!(
        "nothing more is written; what can be read may be copied away; when this has ended, \
         `eraseblock check {target}` tells what is left"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::Location;

    fn of(codes: &[&'static str]) -> Vec<String> {
        let mut findings = Findings::new();
        for code in codes {
            findings.error(Location::Whole, code, "x");
        }
        steps(&findings, OsStr::new("a.ubi:root"))
    }

    /// JFFS2 keeps what was deleted until its block is collected: no cut is needed for that.
    #[test]
    fn what_was_deleted_calls_for_no_repair() {
        let mut findings = Findings::new();
        findings.note(Location::Whole, "orphans", "x");
        assert!(steps(&findings, OsStr::new("a")).is_empty());
    }

    #[test]
    fn each_kind_of_finding_has_its_step() {
        assert!(of(&[]).is_empty());
        let torn = of(&["journal-torn", "size-fixed"]);
        assert!(torn.len() == 1 && torn[0].contains("edit a.ubi:root -c sync"), "{torn:?}");
        let lost = of(&["data-corrupt"]);
        assert!(lost.len() == 1 && lost[0].contains("extract a.ubi:root DIR"), "{lost:?}");
        let device = of(&["table-record-damaged"]);
        assert!(device.len() == 1 && device[0].contains("ubi wear"), "{device:?}");
        let refused = of(&["not-mountable", "master-lost"]);
        assert!(refused.len() == 1 && refused[0].contains("can still be read"), "{refused:?}");
        let wrong = of(&["lpt-corrupt"]);
        assert!(wrong.len() == 1 && wrong[0].contains("mkfs"), "{wrong:?}");
        assert_eq!(of(&["journal-torn", "data-corrupt", "index-wrong"]).len(), 3);
    }
}
