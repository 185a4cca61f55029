//! The allowed dependencies between crates (design: arrows only down).

use crate::command::{cargo, output, repository};
use anyhow::{Context, Result};
use serde::Deserialize;

/// All crates, lowest first: a crate may depend on those before it.
const ROOMS: [&str; 37] = [
    "base",
    "codec",
    "ubi-format",
    "ubifs-format",
    "jffs2-format",
    "yaffs-format",
    "mtd",
    "mtd-host",
    "nand-recipe",
    "nandsim",
    "card",
    "ubi",
    "ubi-schedule",
    "vfs",
    "vfs-testkit",
    "recording",
    "ubifs",
    "jffs2",
    "yaffs",
    "axfs",
    "logfs",
    "squashfs",
    "census",
    "repair",
    "history",
    "tree",
    "fuse",
    "nfs",
    "nbd",
    "explore",
    "lab",
    "eraseblock",
    "cli",
    "python",
    "capi",
    "oracle-manifest",
    "xtask",
];

/// Crates that a front end must not use: it uses file systems through vfs only.
const FRONT_END: &[&str] = &[
    "codec",
    "ubi-format",
    "ubifs-format",
    "jffs2-format",
    "yaffs-format",
    "mtd",
    "mtd-host",
    "nand-recipe",
    "nandsim",
    "card",
    "ubi",
    "ubi-schedule",
    "ubifs",
    "jffs2",
    "yaffs",
    "axfs",
    "logfs",
    "squashfs",
    "census",
    "repair",
    "tree",
    "fuse",
];

/// The crates below a protocol that serves any disk.
const EVERYTHING: &[&str] = &["base", "vfs", "card", "mtd", "mtd-host", "nandsim", "ubi", "ubifs"];

/// Dependencies that point down but are forbidden.
const FORBIDDEN: [(&str, &[&str]); 23] = [
    ("codec", &["ubi-format", "ubifs-format", "jffs2-format", "mtd"]),
    ("ubi-format", &["codec"]),
    ("ubifs-format", &["codec", "ubi-format"]),
    ("jffs2-format", &["codec", "ubi-format", "ubifs-format"]),
    ("yaffs-format", &["codec", "ubi-format", "ubifs-format", "jffs2-format"]),
    ("mtd", &["codec", "ubi-format", "ubifs-format", "jffs2-format", "yaffs-format"]),
    (
        "nand-recipe",
        &["codec", "ubi-format", "ubifs-format", "jffs2-format", "yaffs-format", "mtd-host"],
    ),
    ("nandsim", &["codec", "ubi-format", "ubifs-format", "jffs2-format"]),
    ("card", &["codec", "ubi-format", "ubifs-format", "jffs2-format", "mtd", "nandsim"]),
    ("ubi", &["codec", "ubifs-format", "jffs2-format", "mtd-host", "nandsim"]),
    ("vfs", &["codec", "ubi-format", "ubifs-format", "jffs2-format", "mtd", "nandsim", "ubi"]),
    (
        "vfs-testkit",
        &["codec", "ubi-format", "ubifs-format", "jffs2-format", "mtd", "nandsim", "ubi"],
    ),
    ("ubifs", &["ubi", "ubi-format", "jffs2-format", "mtd-host", "nandsim"]),
    ("jffs2", &["ubi", "ubi-format", "ubifs", "ubifs-format", "mtd-host", "nandsim"]),
    (
        "yaffs",
        &[
            "codec",
            "ubi",
            "ubi-format",
            "ubifs",
            "ubifs-format",
            "jffs2",
            "jffs2-format",
            "mtd-host",
        ],
    ),
    ("axfs", &["ubi", "ubi-format", "ubifs", "ubifs-format", "jffs2", "jffs2-format", "yaffs"]),
    ("logfs", &["ubi", "ubi-format", "ubifs", "ubifs-format", "jffs2", "jffs2-format", "yaffs"]),
    ("squashfs", &["ubi", "ubi-format", "ubifs", "ubifs-format", "jffs2", "jffs2-format", "yaffs"]),
    ("tree", &["mtd", "nandsim", "ubi", "ubi-format", "ubifs", "ubifs-format", "jffs2"]),
    ("fuse", FRONT_END),
    ("nfs", FRONT_END),
    ("nbd", EVERYTHING),
    ("oracle-manifest", &["codec", "mtd", "ubi", "ubi-format", "ubifs", "ubifs-format", "cli"]),
];

/// Crates for tests, with those that may use them in other ways: `eraseblock` only passes the test
/// kit on to the command, together with the lab.
const FOR_TESTS: [(&str, &[&str]); 2] =
    [("ubi-schedule", &[]), ("vfs-testkit", &["lab", "eraseblock", "oracle-manifest", "xtask"])];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for a dependency of the product.
    kind: Option<String>,
    /// Only dependencies inside the repository have one; those in `vendor` do not count.
    path: Option<String>,
}

/// Returns descriptions of all forbidden dependencies of the workspace.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(repository());
    let metadata: Metadata =
        serde_json::from_str(&output(&mut command)?).context("cannot read cargo metadata")?;
    let inside = |dependency: &&Dependency| {
        dependency.path.as_ref().is_some_and(|path| !path.contains("/vendor/"))
    };
    Ok(metadata
        .packages
        .iter()
        .flat_map(|package| {
            let arrows = package.dependencies.iter().filter(inside);
            arrows.filter_map(|to| {
                wrong_arrow(room(&package.name), room(&to.name), to.kind.as_deref())
            })
        })
        .collect())
}

fn room(package: &str) -> &str {
    package.strip_prefix("eraseblock-").unwrap_or(package)
}

/// Returns why one crate must not depend on another, or `None`. Tests may use any lower crate.
fn wrong_arrow(from: &str, to: &str, kind: Option<&str>) -> Option<String> {
    let level = |name: &str| ROOMS.iter().position(|room| *room == name);
    let (Some(from_level), Some(to_level)) = (level(from), level(to)) else {
        return Some(format!("{from} -> {to}: a room that is not in the list of rooms"));
    };
    if to_level >= from_level && kind != Some("dev") {
        return Some(format!("{from} -> {to}: points up"));
    }
    // The command reaches everything below the library through the library.
    let around = from == "cli" && level("eraseblock").is_some_and(|library| to_level < library);
    let for_tests = FOR_TESTS.iter().any(|row| row.0 == to && !row.1.contains(&from));
    let forbidden =
        around || for_tests || FORBIDDEN.iter().any(|row| row.0 == from && row.1.contains(&to));
    (forbidden && kind != Some("dev")).then(|| format!("{from} -> {to}: must not know it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_up_and_sideways_are_found() {
        assert_eq!(wrong_arrow("ubifs", "mtd", None), None);
        assert_eq!(wrong_arrow("ubifs", "ubi", Some("dev")), None);
        assert!(wrong_arrow("ubifs", "ubi", None).is_some());
        assert!(wrong_arrow("base", "vfs", None).is_some());
        assert!(wrong_arrow("base", "base", Some("build")).is_some());
        assert!(wrong_arrow("attic", "base", None).is_some());
        assert!(wrong_arrow("cli", "eraseblock", None).is_none());
        assert!(wrong_arrow("cli", "ubifs", None).is_some());
        assert!(wrong_arrow("lab", "vfs-testkit", None).is_none());
        assert!(wrong_arrow("ubifs", "vfs-testkit", Some("dev")).is_none());
        assert!(wrong_arrow("ubifs", "vfs-testkit", None).is_some());
        assert!(wrong_arrow("lab", "ubi-schedule", None).is_some());
    }

    #[test]
    fn packages_are_rooms() {
        assert_eq!(room("eraseblock"), "eraseblock");
        assert_eq!(room("eraseblock-cli"), "cli");
        assert_eq!(room("eraseblock-ubi-format"), "ubi-format");
    }
}
