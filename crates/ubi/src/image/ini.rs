//! The configuration files of `ubinize`, parsed exactly as it does (spec: ubi 19.1).
//!
//! Section names and keys are case-insensitive. Values lose surrounding white space, end at `;` or
//! `#` unless they are quoted, and continue in the next line after a backslash. If a key is
//! repeated, its last value is used; a repeated section continues the first one.

use eraseblock_base::VolumeId;
use eraseblock_ubi_format::constants::MAX_VOLUMES;
use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName};
use std::error::Error;
use std::fmt;

/// A configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IniError {
    /// A line that is neither a section, a key, a comment nor empty.
    Syntax {
        /// Its number, counted from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// No section at all.
    NoSections,
    /// A mandatory key is missing.
    Missing {
        /// The section.
        section: String,
        /// The key.
        key: &'static str,
        /// The condition under which it is mandatory.
        why: &'static str,
    },
    /// A value cannot be used.
    Value {
        /// The section.
        section: String,
        /// The key.
        key: &'static str,
        /// The value.
        found: String,
        /// The valid values.
        expected: &'static str,
    },
}

impl fmt::Display for IniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, text } => {
                write!(f, "line {line}: `{text}` is neither a section nor a key with a value")
            }
            Self::NoSections => f.write_str("no sections in the configuration"),
            Self::Missing { section, key, why } => {
                write!(f, "section `{section}`: no `{key}`{why}")
            }
            Self::Value { section, key, found, expected } => {
                write!(f, "section `{section}`: `{key}` is `{found}`, expected {expected}")
            }
        }
    }
}

impl Error for IniError {}

/// A section: its name and its keys with their values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The name in lower case.
    pub name: String,
    /// Keys in lower case and values, in the order of their first appearance.
    pub keys: Vec<(String, String)>,
}

impl Section {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, key: String, value: String) {
        match self.keys.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key, value)),
        }
    }
}

/// A volume described by a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSection {
    /// The name of the section.
    pub section: String,
    /// The file with the content, as written in the section.
    pub image: Option<String>,
    /// The number of the volume.
    pub id: VolumeId,
    /// Its kind; dynamic by default.
    pub kind: VolumeKind,
    /// Its name.
    pub name: VolumeName,
    /// Its size in bytes; without it, the size of the image.
    pub size: Option<u64>,
    /// Its alignment; 1 by default.
    pub alignment: u32,
    /// Its flags.
    pub flags: VolumeFlags,
}

/// Parses all sections. Ignores keys before the first section. Fails with the line if it is neither
/// section, key nor comment.
pub fn parse_sections(text: &str) -> Result<Vec<Section>, IniError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut current = None;
    for (line, text) in joined_lines(text) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            current = Some(open_section(&mut sections, name.0));
            continue;
        }
        let Some((key, value)) = text.split_once('=') else {
            return Err(IniError::Syntax { line, text: text.to_owned() });
        };
        if let Some(index) = current {
            let section: &mut Section = &mut sections[index];
            section.set(key.trim().to_lowercase(), clean_value(value));
        }
    }
    if sections.is_empty() {
        return Err(IniError::NoSections);
    }
    Ok(sections)
}

fn open_section(sections: &mut Vec<Section>, name: &str) -> usize {
    let name = name.trim().to_lowercase();
    if let Some(index) = sections.iter().position(|section| section.name == name) {
        return index;
    }
    sections.push(Section { name, keys: Vec::new() });
    sections.len() - 1
}

/// Returns lines with their numbers; joins those that end with a backslash with the next one.
fn joined_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut pending = String::new();
    let mut first = 0;
    for (index, line) in text.lines().enumerate() {
        if pending.is_empty() {
            first = index + 1;
        }
        if let Some(start) = line.trim_end().strip_suffix('\\') {
            pending.push_str(start);
        } else {
            pending.push_str(line);
            lines.push((first, std::mem::take(&mut pending)));
        }
    }
    if !pending.is_empty() {
        lines.push((first, pending));
    }
    lines
}

fn clean_value(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default().to_owned();
        }
    }
    value.split([';', '#']).next().unwrap_or_default().trim().to_owned()
}

/// Reads the volumes of a configuration in their order. Fails with the line and the key if a value
/// is missing or impossible.
pub fn parse_volumes(text: &str) -> Result<Vec<VolumeSection>, IniError> {
    let mut volumes = Vec::new();
    for section in parse_sections(text)? {
        let mode = require(&section, "mode", "")?;
        // Sections for other tools are skipped.
        if mode == "ubi" {
            volumes.push(read_volume(&section)?);
        }
    }
    Ok(volumes)
}

fn require<'a>(
    section: &'a Section,
    key: &'static str,
    why: &'static str,
) -> Result<&'a str, IniError> {
    let missing = || IniError::Missing { section: section.name.clone(), key, why };
    section.get(key).ok_or_else(missing)
}

fn bad_value(section: &Section, key: &'static str, expected: &'static str) -> IniError {
    let found = section.get(key).unwrap_or_default().to_owned();
    IniError::Value { section: section.name.clone(), key, found, expected }
}

fn read_volume(section: &Section) -> Result<VolumeSection, IniError> {
    let kind = match section.get("vol_type") {
        None | Some("dynamic") => VolumeKind::Dynamic,
        Some("static") => VolumeKind::Static,
        Some(_) => return Err(bad_value(section, "vol_type", "dynamic or static")),
    };
    let image = section.get("image").map(str::to_owned);
    if image.is_none() && kind == VolumeKind::Static {
        let (section, key) = (section.name.clone(), "image");
        return Err(IniError::Missing { section, key, why: ", which a static volume needs" });
    }
    let size = read_size(section)?;
    if image.is_none() && size.is_none() {
        let (section, key) = (section.name.clone(), "vol_size");
        return Err(IniError::Missing { section, key, why: " and no `image` either" });
    }
    Ok(VolumeSection {
        section: section.name.clone(),
        image,
        id: read_id(section)?,
        kind,
        name: read_name(section)?,
        size,
        alignment: read_alignment(section)?,
        flags: read_flags(section, kind)?,
    })
}

fn read_id(section: &Section) -> Result<VolumeId, IniError> {
    let number = leading_number(require(section, "vol_id", "")?).0;
    u32::try_from(number)
        .ok()
        .filter(|id| *id < MAX_VOLUMES)
        .map(VolumeId::new)
        .ok_or_else(|| bad_value(section, "vol_id", "a number from 0 to 127"))
}

fn read_name(section: &Section) -> Result<VolumeName, IniError> {
    let name = require(section, "vol_name", "")?;
    VolumeName::new(name).ok_or_else(|| bad_value(section, "vol_name", "1 to 127 bytes"))
}

fn read_size(section: &Section) -> Result<Option<u64>, IniError> {
    let Some(text) = section.get("vol_size") else { return Ok(None) };
    parse_bytes(text)
        .filter(|size| *size > 0)
        .map(Some)
        .ok_or_else(|| bad_value(section, "vol_size", "a number of bytes, KiB, MiB or GiB"))
}

fn read_alignment(section: &Section) -> Result<u32, IniError> {
    let Some(text) = section.get("vol_alignment") else { return Ok(1) };
    u32::try_from(leading_number(text).0)
        .ok()
        .filter(|alignment| *alignment > 0)
        .ok_or_else(|| bad_value(section, "vol_alignment", "a positive number"))
}

fn read_flags(section: &Section, kind: VolumeKind) -> Result<VolumeFlags, IniError> {
    match section.get("vol_flags") {
        None => Ok(VolumeFlags::default()),
        Some("autoresize") => Ok(VolumeFlags::AUTORESIZE),
        Some("skip-check") if kind == VolumeKind::Static => Ok(VolumeFlags::SKIP_CHECK),
        Some("skip-check") => {
            Err(bad_value(section, "vol_flags", "skip-check for static volumes only"))
        }
        Some(_) => Err(bad_value(section, "vol_flags", "autoresize or skip-check")),
    }
}

/// Parses a size like the classic UBI tools: a number in C notation and an optional `KiB`, `MiB` or
/// `GiB` in exactly this spelling, optionally after spaces.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, rest) = leading_number(text);
    if rest.len() == text.len() {
        return None;
    }
    let shift = match rest.trim() {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    u64::try_from(number).ok()?.checked_mul(1 << shift)
}

/// Returns the number at the start of a text, in C notation, and the rest: `strtol` with base 0.
/// Without digits, returns 0 and the whole text.
fn leading_number(text: &str) -> (i64, &str) {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = match hex {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (16, rest),
        _ if digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return (0, text);
    }
    let value = i64::from_str_radix(&digits[..end], radix).unwrap_or(i64::MAX);
    (if negative { -value } else { value }, &digits[end..])
}

#[cfg(test)]
mod tests;
