//! Next steps after a file system turned read-only, or a check found something. Each kind of
//! problem has one.

use crate::error::{Setting, Words};
use eraseblock_base::{Finding, Findings, Remedy, Severity};
use std::ffi::OsStr;

/// Start of an error that states why writing has ended.
pub const TURNED: &str = "the file system turned read-only";

/// Returns the next step after a file system turned read-only and is no longer in use.
pub fn after_read_only(target: &OsStr) -> String {
    let target = target.display();
    format!(
        "durable data is intact: the next mount replays the journal; `eraseblock check {target}` \
        reports what is left, `eraseblock extract {target} DIR` copies out what can be read"
    )
}

/// Returns the next steps for the findings of a check, one for each kind.
pub fn steps(findings: &Findings, target: &OsStr) -> Vec<Words> {
    let target = target.display();
    let worse = |finding: &&Finding| finding.severity > Severity::Note;
    let has = |remedy| findings.iter().any(|finding| finding.code.remedy() == remedy);
    let contradicts = findings.iter().filter(worse).any(|it| it.code.remedy() == Remedy::Rescue);
    let mut steps = Vec::new();
    if has(Remedy::Mount) {
        steps.push(format!(
            "what a power cut left is repaired by the next mount for writing, also by `eraseblock \
             edit {target} -c sync`"
        ).into());
    }
    if has(Remedy::Lost) {
        let lost = format!(
            "what was at the damaged places is lost: `eraseblock extract {target} DIR` copies out \
             everything else and names what lacks something, with "
        );
        steps.push(Words::from(lost) + Setting::KeepDamaged + " also that");
    }
    if has(Remedy::Device) {
        steps.push(
            "`eraseblock info` and `eraseblock ubi wear` describe the UBI device; `eraseblock ubi \
             update TARGET:VOLUME FILE` rewrites a damaged volume"
                .into(),
        );
    }
    if has(Remedy::Read) {
        steps.push(format!(
            "no mount takes it, but it can still be read: `eraseblock extract {target} DIR` copies \
             out what is left, `eraseblock mkfs` makes a file system of that"
        ).into());
    } else if contradicts {
        steps.push(format!(
            "a mount for writing may turn read-only over this: `eraseblock extract {target} DIR` \
             copies everything out, `eraseblock mkfs` makes a new file system of it"
        ).into());
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;
    use eraseblock_base::{Code, Location};
    use eraseblock_ubi::codes::TABLE_RECORD_DAMAGED;
    use eraseblock_ubifs::codes::{JOURNAL_TORN, SIZE_FIXED};

    fn of(codes: &[Code]) -> Vec<String> {
        let mut findings = Findings::new();
        for code in codes {
            findings.error(Location::Whole, *code, "x");
        }
        steps(&findings, OsStr::new("a.ubi:root")).iter().map(ToString::to_string).collect()
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
        let torn = of(&[JOURNAL_TORN, SIZE_FIXED]);
        assert!(torn.len() == 1 && torn[0].contains("edit a.ubi:root -c sync"), "{torn:?}");
        let lost = of(&[codes::DATA_CORRUPT]);
        assert!(lost.len() == 1 && lost[0].contains("extract a.ubi:root DIR"), "{lost:?}");
        let device = of(&[TABLE_RECORD_DAMAGED]);
        assert!(device.len() == 1 && device[0].contains("ubi wear"), "{device:?}");
        let refused = of(&[codes::NOT_MOUNTABLE, "master-lost".into()]);
        assert!(refused.len() == 1 && refused[0].contains("can still be read"), "{refused:?}");
        let wrong = of(&["lpt-corrupt".into()]);
        assert!(wrong.len() == 1 && wrong[0].contains("mkfs"), "{wrong:?}");
        assert_eq!(of(&[JOURNAL_TORN, codes::DATA_CORRUPT, "index-wrong".into()]).len(), 3);
    }
}
