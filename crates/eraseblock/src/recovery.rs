//! Next steps after a file system turned read-only, or a check found something. Each kind of
//! problem has one.

use eraseblock_base::{Findings, Severity};
use std::ffi::OsStr;

/// Start of an error that states why writing has ended.
pub const TURNED: &str = "the file system turned read-only";

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

/// Content or names that are lost; nothing else depends on them.
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
pub const NOT_MOUNTABLE: &str = "not-mountable";

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

/// Returns the next step after a file system turned read-only and is no longer in use.
pub fn after_read_only(target: &OsStr) -> String {
    let target = target.display();
    format!(
        "durable data is intact: the next mount replays the journal; `eraseblock check {target}` \
        reports what is left, `eraseblock extract {target} DIR` copies out what can be read"
    )
}

/// Returns the next steps for the findings of a check, one for each kind.
pub fn steps(findings: &Findings, target: &OsStr) -> Vec<String> {
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
            "`eraseblock info` and `eraseblock ubi wear` describe the UBI device; `eraseblock ubi \
             update TARGET:VOLUME FILE` rewrites a damaged volume"
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
             copies everything out, `eraseblock mkfs` makes a new file system of it"
        ));
    }
    steps
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
