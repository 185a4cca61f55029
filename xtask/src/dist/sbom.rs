//! The software bill of materials: an SPDX document of everything that is compiled into the
//! command and the Python package, from what cargo resolved and `Cargo.lock` pins.

use crate::command::{cargo, output, repository};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `dev` or `build`; nothing for a normal dependency.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Returns the document for the command built for `target`, its time that of the commit.
pub(super) fn document(target: &str) -> Result<String> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    let metadata: Metadata = serde_json::from_str(&output(command.current_dir(repository()))?)
        .context("cannot read cargo metadata")?;
    let lock: Lock = toml::from_str(&fs::read_to_string(repository().join("Cargo.lock"))?)?;
    let git = |args: &[&str]| {
        output(Command::new("git").args(args).current_dir(repository()))
            .map(|text| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let seconds = git(&["log", "-1", "--format=%ct"])?;
    let created = output(
        Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{seconds}")),
    )?;
    let document = spdx(&metadata, &lock, &built(target)?, (&commit, created.trim()))?;
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The packages that are delivered: the second one contains the first.
const ROOTS: [&str; 2] = ["eraseblock-cli", "eraseblock-python"];

/// Returns name and version of each package that is built for the command and for Python, from `cargo tree`. The
/// packages that cargo resolved include those for other packages of the workspace.
pub(super) fn built(target: &str) -> Result<BTreeSet<String>> {
    let mut command = cargo();
    command.args(["tree", "--package", ROOTS[0], "--package", ROOTS[1], "--edges", "normal,build"]);
    command.arg("--locked");
    command.args(["--prefix", "none", "--target", target]);
    let text = output(command.current_dir(repository()))?;
    let of_line = |line: &str| -> Option<String> {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    Ok(text.lines().filter_map(of_line).collect())
}

fn spdx(
    metadata: &Metadata,
    lock: &Lock,
    built: &BTreeSet<String>,
    (commit, created): (&str, &str),
) -> Result<Value> {
    let named = |name: &str| {
        let found = metadata.packages.iter().find(|package| package.name == name);
        found.with_context(|| format!("there is no package {name}"))
    };
    let [root, whole] = [named(ROOTS[0])?, named(ROOTS[1])?];
    let is_built =
        |package: &&Package| built.contains(&format!("{} v{}", package.name, package.version));
    let names: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(is_built)
        .map(|package| (package.id.as_str(), package))
        .collect();
    let (used, arrows) = compiled(&metadata.resolve, &whole.id, &names);
    let mut packages: Vec<&Package> = used.iter().filter_map(|id| names.get(id).copied()).collect();
    packages.sort_by_key(|package| (&package.name, &package.version));
    let mut relationships = Vec::from([root, whole].map(|delivered| {
        json!({
            "spdxElementId": "SPDXRef-DOCUMENT",
            "relationshipType": "DESCRIBES",
            "relatedSpdxElement": reference(delivered),
        })
    }));
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (from, to) in arrows {
        let (Some(from), Some(to)) = (names.get(from), names.get(to)) else { continue };
        pairs.push((reference(from), reference(to)));
    }
    pairs.sort();
    relationships.extend(pairs.into_iter().map(|(from, to)| {
        json!({"spdxElementId": from, "relationshipType": "DEPENDS_ON", "relatedSpdxElement": to})
    }));
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("eraseblock {}", root.version),
        "documentNamespace": format!("urn:eraseblock:sbom:{}:{commit}", root.version),
        "creationInfo": {"created": created, "creators": ["Tool: cargo xtask dist"]},
        "packages": packages.iter().map(|package| described(package, lock)).collect::<Vec<_>>(),
        "relationships": relationships,
    }))
}

/// Returns the packages in `names` that `root` needs, including proc macros and build scripts with
/// their dependencies, and all dependencies between them.
fn compiled<'a>(
    resolve: &'a Resolve,
    root: &'a str,
    names: &BTreeMap<&str, &Package>,
) -> (BTreeSet<&'a str>, BTreeSet<(&'a str, &'a str)>) {
    let nodes: BTreeMap<&str, &Node> =
        resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let (mut used, mut arrows) = (BTreeSet::from([root]), BTreeSet::new());
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        let is_built =
            |kinds: &[Kind]| kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
        let deps = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        for dependency in deps.filter(|dependency| is_built(&dependency.dep_kinds)) {
            if !names.contains_key(dependency.pkg.as_str()) {
                continue;
            }
            arrows.insert((id, dependency.pkg.as_str()));
            if used.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    (used, arrows)
}

fn described(package: &Package, lock: &Lock) -> Value {
    let Package { name, version, license, source, .. } = package;
    let license = license.as_deref().unwrap_or("NOASSERTION").replace('/', " OR ");
    let locked =
        lock.package.iter().find(|locked| locked.name == *name && locked.version == *version);
    let mut value = json!({
        "SPDXID": reference(package),
        "name": name,
        "versionInfo": version,
        "licenseDeclared": license,
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
    });
    if source.is_some() {
        value["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{name}@{version}"),
        }]);
    }
    if let Some(sum) = locked.and_then(|locked| locked.checksum.as_deref()) {
        value["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": sum}]);
    }
    value
}

/// Converts an identifier, which may contain only letters, digits, dots and dashes.
fn reference(package: &Package) -> String {
    let text = format!("SPDXRef-{}-{}", package.name, package.version);
    text.replace(|other: char| !other.is_ascii_alphanumeric() && other != '.' && other != '-', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_in_is_listed_and_nothing_else() {
        let text = document("x86_64-unknown-linux-musl").unwrap();
        assert_eq!(text, document("x86_64-unknown-linux-musl").unwrap());
        let document: Value = serde_json::from_str(&text).unwrap();
        let packages = document["packages"].as_array().unwrap();
        let of = |name: &str| packages.iter().find(|package| package["name"] == name);
        let zstd = of("zstd-sys").unwrap();
        assert_eq!(zstd["checksums"][0]["algorithm"], "SHA256");
        assert!(of("eraseblock-ubifs").is_some() && of("eraseblock").is_some());
        // Only for tests.
        assert!(of("proptest").is_none() && of("shuttle").is_none());
        let ids: BTreeSet<&str> =
            packages.iter().filter_map(|package| package["SPDXID"].as_str()).collect();
        assert_eq!(ids.len(), packages.len(), "every package has a name of its own");
        for arrow in document["relationships"].as_array().unwrap() {
            assert!(ids.contains(arrow["relatedSpdxElement"].as_str().unwrap()), "{arrow}");
        }
    }
}
