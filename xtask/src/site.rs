//! `cargo xtask site`: the documentation as a site with search, in `target/site/html`.
//!
//! The pages are those of the repository, in the folders in which they are there, so that their
//! links are the same. Pages of the manual come from the command. The site is made without a
//! network once its generator is installed, and fetches nothing from elsewhere when it is read.

mod check;
mod manual;
mod pages;

use crate::command::{output, repository};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The generator. Newer ones need a package that is not published.
const GENERATOR: &str = "zensical==0.0.73";

/// What the site is configured by; pages of the manual are added to its navigation.
const CONFIGURATION: &str = "docs/site/zensical.toml";

/// Builds the site, and with `--check` examines it; with `--screenshots` also pictures of it are
/// written next to it.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let mut bin = repository().join("target/debug/eraseblock");
    let (mut rest, mut is_checked, mut has_pictures) = (args.iter(), false, false);
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--bin" => bin = PathBuf::from(rest.next().context("--bin needs a value")?),
            "--check" => is_checked = true,
            "--screenshots" => has_pictures = true,
            other => bail!("unknown argument {other}"),
        }
    }
    let site = build(&bin)?;
    println!("{}", site.display());
    if is_checked || has_pictures { check::run(&site, has_pictures) } else { Ok(true) }
}

/// Builds the site and returns its folder.
fn build(bin: &Path) -> Result<PathBuf> {
    let generator = generator()?;
    let home = repository().join("target/site");
    let _ = fs::remove_dir_all(&home);
    let pages = home.join("pages");
    fs::create_dir_all(&pages)?;
    pages::copy(&repository(), &pages)?;
    let manual = manual::write(bin, &pages)?;
    fs::write(home.join("zensical.toml"), configuration(&manual)?)?;
    let mut build = Command::new(generator);
    let done =
        build.args(["build", "--strict"]).current_dir(&home).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    ensure!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    Ok(home.join("html"))
}

/// Returns the program of the generator; installs it into an environment of its own.
fn generator() -> Result<PathBuf> {
    let folder = repository().join("target/tools/site");
    let marker = folder.join("installed");
    if fs::read_to_string(&marker).ok().as_deref() != Some(GENERATOR) {
        let _ = fs::remove_dir_all(&folder);
        output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = ["-m", "pip", "-q", "install", GENERATOR];
        output(Command::new(folder.join("bin/python")).args(pip))?;
        fs::write(marker, GENERATOR)?;
    }
    Ok(folder.join("bin/zensical"))
}

/// The configuration with these pages of the manual in its navigation.
fn configuration(manual: &[String]) -> Result<String> {
    let text = fs::read_to_string(repository().join(CONFIGURATION))?;
    let mut configuration: toml::Table = toml::from_str(&text)?;
    let navigation = configuration["project"]["nav"].as_array_mut().context("no navigation")?;
    let manual = section("Manual", manual.iter().map(|name| format!("man/{name}.md")));
    let formats = pages::formats(&repository())?.into_iter().map(|(place, _)| place);
    let formats = section("Formats", [pages::LIST.to_owned()].into_iter().chain(formats));
    // The last two parts are for readers who work on the program itself.
    let place = navigation.len().saturating_sub(2);
    navigation.splice(place..place, [manual, formats]);
    Ok(toml::to_string(&configuration)?)
}

/// A part of the navigation.
fn section(title: &str, pages: impl Iterator<Item = String>) -> toml::Value {
    let pages = pages.map(toml::Value::String).collect();
    toml::Value::Table([(title.to_owned(), toml::Value::Array(pages))].into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that a part of the navigation names.
    fn named(part: &toml::Value, pages: &mut Vec<String>) {
        match part {
            toml::Value::String(page) => pages.push(page.clone()),
            toml::Value::Array(parts) => parts.iter().for_each(|part| named(part, pages)),
            toml::Value::Table(parts) => parts.values().for_each(|part| named(part, pages)),
            _ => {}
        }
    }

    #[test]
    fn every_page_is_in_the_navigation() {
        let text = configuration(&["eraseblock.1".to_owned()]).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let mut pages = Vec::new();
        named(&table["project"]["nav"], &mut pages);
        for folder in ["docs", "docs/format"] {
            for entry in fs::read_dir(repository().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let place = format!("{folder}/{name}");
                let is_page = path.extension().is_some_and(|kind| kind == "md");
                assert!(!is_page || pages.contains(&place), "{place}");
            }
        }
        assert!(pages.contains(&"man/eraseblock.1.md".to_owned()));
    }
}
