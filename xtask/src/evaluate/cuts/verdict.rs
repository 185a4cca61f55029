//! What is wrong with a state, from what the guest reported of it.

use super::script::{Expected, Wrong};
use eraseblock_vfs_testkit::scripted::Listed;
use serde::{Deserialize, Serialize};

/// A kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Harm {
    /// The guest stopped or no longer answered.
    Stopped,
    /// The file system does not mount.
    Refused,
    /// Something synced is missing or has another content.
    Lost,
    /// A file shows what was never written to it, or exists although it was removed.
    Stale,
    /// An entry cannot be read.
    Unreadable,
    /// The file system's own tool finds errors after the first mount.
    Check,
    /// A file cannot be written, or is not there after a new mount.
    Write,
    /// The tool finds errors after that.
    CheckAfter,
    /// The kernel reports corruption or a fault of its own.
    Kernel,
}

impl Harm {
    pub(super) const ALL: [Self; 9] = [
        Self::Stopped,
        Self::Refused,
        Self::Lost,
        Self::Stale,
        Self::Unreadable,
        Self::Check,
        Self::Write,
        Self::CheckAfter,
        Self::Kernel,
    ];

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Stopped => "guest stopped",
            Self::Refused => "mount refused",
            Self::Lost => "synced data lost",
            Self::Stale => "foreign data shown",
            Self::Unreadable => "unreadable entries",
            Self::Check => "errors after the mount",
            Self::Write => "write failed",
            Self::CheckAfter => "errors after the write",
            Self::Kernel => "kernel complained",
        }
    }
}

/// Damage, and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) harm: Harm,
    pub(super) detail: String,
}

impl Finding {
    pub(super) fn new(harm: Harm, detail: impl Into<String>) -> Self {
        Self { harm, detail: detail.into() }
    }
}

impl From<Wrong> for Finding {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Lost(detail) => Self::new(Harm::Lost, detail),
            Wrong::Stale(detail) => Self::new(Harm::Stale, detail),
            Wrong::Unreadable(detail) => Self::new(Harm::Unreadable, detail),
        }
    }
}

/// A section of a result.
#[derive(Debug)]
struct Section<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    is_ok: bool,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("== "), sections.last_mut()) {
            (Some("status 0"), Some(section)) => section.is_ok = true,
            (Some(status), Some(_)) if status.starts_with("status ") => {}
            (Some(name), _) => sections.push(Section { name, lines: Vec::new(), is_ok: false }),
            (None, Some(section)) => section.lines.push(line),
            (None, None) => {}
        }
    }
    sections
}

/// Judges the report of a state.
pub(super) fn judge(report: &str, expected: &Expected) -> Vec<Finding> {
    let sections = sections(report);
    if sections.last().is_none_or(|section| section.name != "end") {
        return vec![Finding::new(Harm::Stopped, "the report of the state is cut off")];
    }
    let mut findings = Vec::new();
    for section in &sections {
        let harm = match section.name {
            "mount" => Harm::Refused,
            "check" => Harm::Check,
            "again" | "write" | "unmount" => Harm::Write,
            "checked" => Harm::CheckAfter,
            "list" => {
                findings.extend(listed(section, expected));
                continue;
            }
            "kernel" => {
                let complaint = section.lines.iter().find(|line| is_complaint(line));
                findings.extend(complaint.map(|line| Finding::new(Harm::Kernel, *line)));
                continue;
            }
            _ => continue,
        };
        if !section.is_ok {
            findings.push(Finding::new(harm, telling(&section.lines)));
        }
    }
    findings
}

fn listed(section: &Section<'_>, expected: &Expected) -> Vec<Finding> {
    let entries: Result<Vec<Listed>, String> =
        section.lines.iter().map(|line| line.parse()).collect();
    match entries {
        Ok(entries) if section.is_ok => {
            expected.judge(&entries).into_iter().map(Finding::from).collect()
        }
        Ok(_) => vec![Finding::new(Harm::Unreadable, "the listing failed")],
        Err(error) => vec![Finding::new(Harm::Unreadable, error)],
    }
}

/// Returns the first lines of a tool's output that are not its banner.
fn telling(lines: &[&str]) -> String {
    let is_banner = |line: &&&str| {
        let lower = line.to_lowercase();
        !(lower.trim().is_empty()
            || lower.starts_with("e2fsck 1.")
            || lower.starts_with("pass ")
            || lower.starts_with("phase ")
            || lower.starts_with("fsck.fat 4"))
    };
    let told: Vec<&str> = lines.iter().filter(is_banner).take(3).copied().collect();
    told.join("; ")
}

/// The marks of file systems in the kernel's log.
const TAGS: [&str; 6] = ["ext4-fs", "btrfs", "xfs", "f2fs", "nilfs", "fat-fs"];
/// Words of their complaints.
const WORDS: [&str; 4] = ["error", "corrupt", "critical", "inconsist"];
/// Faults of the kernel itself.
const FAULTS: [&str; 4] = ["bug:", "call trace", "general protection", "kernel panic"];

fn is_complaint(line: &str) -> bool {
    let lower = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    has(&FAULTS) || (has(&TAGS) && has(&WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "== mount\n== status 0\n== list\ndir \n== status 0\n== unmount\n== status 0\n\
        == check\ne2fsck 1.47.0\nPass 1: x\n== status 0\n== again\n== status 0\n== write\n== status 0\n\
        == checked\n== status 0\n== kernel\n[1] EXT4-fs (vda): recovery complete\n== end\n";

    fn harms(report: &str) -> Vec<Harm> {
        let expected = Expected::after(&[], None);
        judge(report, &expected).iter().map(|finding| finding.harm).collect()
    }

    #[test]
    fn every_section_can_show_damage() {
        assert_eq!(harms(GOOD), []);
        let fails = |section: &str| {
            let at = GOOD.find(&format!("== {section}\n")).unwrap();
            let status = at + GOOD[at..].find("status 0").unwrap();
            [&GOOD[..status], "status 4", &GOOD[status + 8..]].concat()
        };
        let cases = [
            ("mount", Harm::Refused),
            ("list", Harm::Unreadable),
            ("check", Harm::Check),
            ("write", Harm::Write),
            ("checked", Harm::CheckAfter),
        ];
        for (section, harm) in cases {
            assert_eq!(harms(&fails(section)), [harm], "{section}");
        }
        assert_eq!(harms(&GOOD.replace("recovery complete", "error (device vda)")), [Harm::Kernel]);
        assert_eq!(harms(&GOOD.replace("dir ", "nonsense")), [Harm::Unreadable]);
        assert_eq!(harms(&GOOD[..GOOD.len() - 8]), [Harm::Stopped]);
        assert_eq!(harms(""), [Harm::Stopped]);
    }

    #[test]
    fn a_tool_is_quoted_without_its_banner() {
        let report = GOOD.replace(
            "Pass 1: x\n== status 0",
            "Pass 1: x\nInode 12 is a zero-length directory.\n== status 4",
        );
        let found = judge(&report, &Expected::after(&[], None));
        assert_eq!(found[0].detail, "Inode 12 is a zero-length directory.");
    }
}
