//! Licences, sources and bans of dependencies: what their manifests declare and `deny.toml` allows.
//! `make deny` also reads the texts of the licences.

use crate::command::{cargo, output, repository};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;

/// The part of `deny.toml` that is checked here.
#[derive(Debug, Deserialize)]
struct Policy {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A package of the build.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// `None` for a package of the repository.
    source: Option<String>,
}

/// The allowed source of packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns descriptions of all faults.
pub(super) fn check() -> Result<Vec<String>> {
    let text = fs::read_to_string(repository().join("deny.toml"))?;
    let policy: Policy = toml::from_str(&text).context("deny.toml")?;
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(repository());
    let metadata: Metadata =
        serde_json::from_str(&output(&mut command)?).context("cannot read cargo metadata")?;
    Ok(metadata.packages.iter().filter_map(|package| fault(&policy, package)).collect())
}

fn fault(policy: &Policy, package: &Package) -> Option<String> {
    let name = &package.name;
    if policy.bans.deny.iter().any(|ban| ban.name == *name) {
        return Some(format!("{name}: banned"));
    }
    match package.source.as_deref() {
        Some(source) if source != REGISTRY => return Some(format!("{name}: comes from {source}")),
        _ => (),
    }
    let is_allowed = |licence: &str| {
        let exceptions = policy.licenses.exceptions.iter().filter(|found| found.name == *name);
        let mut all = exceptions.flat_map(|found| &found.allow).chain(&policy.licenses.allow);
        all.any(|allowed| allowed == licence)
    };
    let Some(declared) = package.license.as_deref() else {
        return Some(format!("{name}: declares no licence"));
    };
    let is_good = is_satisfied(declared, &is_allowed);
    (!is_good).then(|| format!("{name}: {declared} is not allowed"))
}

/// Returns whether an SPDX expression can be satisfied; a slash is an old form of OR. Parentheses
/// hold one choice each in everything that is published: `(MIT OR Apache-2.0) AND Unicode-3.0`.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut depth = 0;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" AND ") => {
                parts.push(&expression[start..at]);
                start = at + " AND ".len();
            }
            _ => (),
        }
    }
    parts.push(&expression[start..]);
    if let [part] = parts[..] {
        let inner = part.trim().trim_start_matches('(').trim_end_matches(')').replace('/', " OR ");
        return inner.split(" OR ").any(|licence| is_allowed(licence.trim()));
    }
    parts.iter().all(|part| is_satisfied(part, is_allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        let is_allowed =
            |licence: &str| ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
        for good in [
            "MIT",
            "MIT/GPL-2.0",
            "GPL-2.0 OR MIT",
            "(GPL-2.0 OR MIT) AND Zlib",
            "Apache-2.0 WITH LLVM-exception OR X",
            "Zlib AND (X OR MIT)",
        ] {
            assert!(is_satisfied(good, &is_allowed), "{good}");
        }
        for bad in ["GPL-2.0", "MIT AND GPL-2.0", "(GPL-2.0 OR X) AND MIT", "", "Apache-2.0"] {
            assert!(!is_satisfied(bad, &is_allowed), "{bad}");
        }
    }

    #[test]
    fn a_fault_of_each_kind_is_found() {
        let text = fs::read_to_string(repository().join("deny.toml")).unwrap();
        let policy: Policy = toml::from_str(&text).unwrap();
        let of = |name: &str, license: Option<&str>, source: &str| Package {
            name: name.to_owned(),
            license: license.map(str::to_owned),
            source: Some(source.to_owned()),
        };
        let faults = [
            of("minilzo-rs", Some("MIT"), REGISTRY),
            of("a", Some("GPL-3.0-only"), REGISTRY),
            of("a", Some("Unlicense"), REGISTRY),
            of("a", None, REGISTRY),
            of("a", Some("MIT"), "git+https://example.org/a"),
        ];
        for package in &faults {
            assert!(fault(&policy, package).is_some(), "{package:?}");
        }
        let fine = [of("a", Some("MIT"), REGISTRY), of("nfs3_types", Some("Unlicense"), REGISTRY)];
        for package in &fine {
            assert_eq!(fault(&policy, package), None);
        }
    }
}
