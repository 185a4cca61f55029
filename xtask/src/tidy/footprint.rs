//! How much a program takes in that only reads images.

use crate::command::{cargo, output, repository};
use anyhow::Result;
use std::collections::BTreeSet;

/// What the library without features must not depend on.
const UNWANTED: [&str; 8] =
    ["clap", "fuser", "rayon", "regex", "rustix", "serde", "tempfile", "tokio"];
/// The number of crates it may consist of, ours and those included that run only in the compiler.
const MOST: usize = 20;

/// What is wrong with the dependencies of the library without features, in words.
pub(super) fn check() -> Result<Vec<String>> {
    let mut command = cargo();
    command.args(["tree", "--package", "eraseblock", "--no-default-features"]);
    command.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    Ok(faults(&output(command.current_dir(repository()))?))
}

fn faults(tree: &str) -> Vec<String> {
    let packages: BTreeSet<&str> =
        tree.lines().map(|line| line.split(" (").next().unwrap_or_default()).collect();
    let name = |package: &str| package.split(' ').next().unwrap_or_default().to_owned();
    let all: Vec<String> =
        packages.iter().map(|package| name(package)).filter(|name| !name.is_empty()).collect();
    let unwanted = all.iter().filter(|name| UNWANTED.contains(&name.as_str()));
    let mut faults: Vec<String> =
        unwanted.map(|name| format!("reading alone depends on {name}")).collect();
    if all.len() > MOST {
        let (count, names) = (all.len(), all.join(", "));
        faults.push(format!("reading alone takes {count} crates, expected {MOST}: {names}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_and_unwanted_crates_are_faults() {
        let few = "eraseblock v0.1.0 (/x)\nmemchr v2.8.3\nmemchr v2.8.3 (*)\n\n";
        assert!(faults(few).is_empty());
        assert_eq!(faults("rayon v1.0.0\n"), ["reading alone depends on rayon"]);
        let many: Vec<String> = (0..=MOST).map(|number| format!("a{number} v1.0.0")).collect();
        assert!(faults(&many.join("\n"))[0].contains("takes 21 crates"));
    }
}
