//! Addresses: ways to name a byte of an image, and a field of the structure there.

use super::record::Found;
use super::{Debugger, Refusal, usage};
use crate::census::{Entry, State};
use crate::segment::{Format, Segment, vid_of};
use crate::value;
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubifs_format::constants::MASTER_LEB;
use eraseblock_ubifs_format::lpt::LptGeometry;
use std::collections::HashMap;

/// Children of a node of the LEB properties tree.
const FANOUT: u64 = 4;
/// The number of the root directory in UBIFS and JFFS2.
const ROOT: u64 = 1;
/// What may follow the name of a volume.
const IN_VOLUME: [&str; 10] =
    ["leb", "sb", "master", "master2", "ltab", "lsave", "lpt", "idx", "ino", "key"];
const EXPECTED: &str =
    "expected an address: @7.512, byte 123, peb 7:512, leb 11:4056, sb, ino 66; `help` lists all";

/// What an address names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    /// A byte of the image.
    pub(super) at: u64,
    /// A field of the structure there.
    pub(super) field: Option<String>,
    /// A block as a whole.
    pub(super) is_block: bool,
}

/// A step of a search: the byte, if one was found.
type Place = Result<Option<u64>, Refusal>;

/// A volume of a UBI device; `None` for the first that fits.
type Volume = Option<u32>;

/// Returns the parent and the name of an entry of a directory.
pub(super) fn entry_name(entry: &Entry<'_>) -> Option<(u64, Vec<u8>)> {
    let structure = entry.structure?;
    let bytes = entry.record.bytes;
    let (parent, len) = match structure.kind {
        "ubifs.dent" | "ubifs.xent" => {
            let key = structure.part("key")?.field;
            let ino = value::own(&key, bytes).first_chunk().copied()?;
            (u32::from_le_bytes(ino).into(), structure.number("nlen", bytes))
        }
        "jffs2.dirent" => (structure.number("pino", bytes), structure.number("nsize", bytes)),
        _ => return None,
    };
    let start = structure.head_len();
    let name = bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)?;
    Some((parent, name.to_vec()))
}

/// Splits `66.size` at the first point.
fn with_field(word: &str) -> (&str, Option<String>) {
    match word.split_once('.') {
        Some((word, field)) => (word, Some(field.to_owned())),
        None => (word, None),
    }
}

/// Returns the name and the index of `master[-1]`; the index is -1 where there is none.
fn indexed(word: &str, default: i64) -> Option<(&str, i64)> {
    match word.split_once('[') {
        Some((name, index)) => Some((name, index.strip_suffix(']')?.parse().ok()?)),
        None => Some((word, default)),
    }
}

/// Returns the element of a list; negative indexes count from its end.
fn element<T>(mut list: Vec<T>, index: i64) -> Option<T> {
    let len = i64::try_from(list.len()).ok()?;
    let at = usize::try_from(if index < 0 { index + len } else { index }).ok()?;
    (at < list.len()).then(|| list.swap_remove(at))
}

/// Returns the numbers of `7:512`; the second is 0 where there is none.
fn pair(text: &str, sign: char) -> Option<(u64, u64)> {
    let (block, offset) = text.split_once(sign).unwrap_or((text, "0"));
    Some((value::parse_number(block)?, value::parse_number(offset)?))
}

impl Debugger {
    /// Returns what an address names, and how many words it took. Its byte becomes the current one.
    pub(super) fn address(&mut self, words: &[&str]) -> Result<(Address, usize), Refusal> {
        let (address, used) = self.find_address(words)?;
        self.at = Some(address.at);
        Ok((address, used))
    }

    fn find_address(&self, words: &[&str]) -> Result<(Address, usize), Refusal> {
        let Some(first) = words.first() else {
            let at = self.current()?;
            return Ok((Address { at, field: None, is_block: false }, 0));
        };
        if let Some(field) = first.strip_prefix('.') {
            let field = (!field.is_empty()).then(|| field.to_owned());
            return Ok((Address { at: self.current()?, field, is_block: false }, 1));
        }
        let (at, mut field, mut used) = self.base(words)?;
        let size = self.plan.size;
        let at = match at {
            Some(at) if at < size => at,
            Some(at) => return usage(format!("byte {at}: the image has {size} bytes")),
            None => return usage(EXPECTED),
        };
        if field.is_none()
            && let Some(name) = words.get(used).and_then(|word| word.strip_prefix('.'))
        {
            field = Some(name.to_owned());
            used += 1;
        }
        let is_whole = words.get(1).is_some_and(|word| !word.contains(':'));
        let is_block = is_whole && (*first == "peb" || *first == "leb" || first.ends_with("/leb"));
        Ok((Address { at, field, is_block: is_block && used == 2 }, used))
    }

    fn current(&self) -> Result<u64, Refusal> {
        self.at.map_or_else(|| usage("no command named a place before"), Ok)
    }

    /// Resolves an address without its last part.
    fn base(&self, words: &[&str]) -> Result<(Option<u64>, Option<String>, usize), Refusal> {
        let first = words[0];
        if let Some(place) = first.strip_prefix('@') {
            let (at, field) = self.at_sign(place);
            return Ok((at, field, 1));
        }
        if first.starts_with('/') || first.starts_with("\"/") {
            return Ok((self.path(None, first)?, None, 1));
        }
        let (volume, keyword) = self.volume_of(first)?;
        let argument = words.get(1).copied().unwrap_or_default();
        let (word, field) = with_field(argument);
        let found = match keyword {
            "byte" => value::parse_number(word),
            "peb" => pair(word, ':').and_then(|(block, offset)| self.in_block(block, offset)),
            "leb" => match pair(word, ':') {
                Some((leb, offset)) => self.in_leb(volume, leb, offset)?,
                None => None,
            },
            "ino" => self.inode(volume, word)?,
            "key" if Self::named_key(argument).is_some() => {
                return Ok((self.key(volume, argument)?, None, 2));
            }
            "key" => self.key(volume, word)?,
            "path" => return Ok((self.path(volume, argument)?, None, 2)),
            "vtbl" => self.table_record(0, word)?,
            "vtbl2" => self.table_record(1, word)?,
            "lpt" => self.lpt(volume, word)?,
            "idx" => self.index(volume, word)?,
            "node" => self.neighbour(word)?,
            _ => {
                let (at, field) = self.single(volume, keyword)?;
                return Ok((at, field, 1));
            }
        };
        Ok((found, field, 2))
    }

    /// Splits `rootfs/leb` into the number of the volume and the rest.
    fn volume_of<'a>(&self, word: &'a str) -> Result<(Volume, &'a str), Refusal> {
        let Some((name, rest)) = word.rsplit_once('/') else { return Ok((None, word)) };
        let keyword = rest.split(['.', '[']).next().unwrap_or(rest);
        if !IN_VOLUME.contains(&keyword) && keyword != "path" {
            return Ok((None, word));
        }
        if let Ok(id) = name.parse() {
            return Ok((Some(id), rest));
        }
        let mut id = 0;
        while let Some(at) = self.table_record(0, &format!("{id}"))? {
            let found = self.record(at)?;
            let Ok(field) = self.field(&found, "name") else { break };
            if value::trimmed(value::own(&field, &found.bytes)) == name.as_bytes() {
                return Ok((Some(id), rest));
            }
            id += 1;
        }
        usage(format!("there is no volume `{name}`"))
    }

    /// Addresses of one word: `sb`, `master[-1]`, `ubifs.ref[0]`, each with a field.
    fn single(&self, volume: Volume, word: &str) -> Result<(Option<u64>, Option<String>), Refusal> {
        let plain = word.split('.').next().unwrap_or(word);
        let (name, field) = with_field(word);
        let Some((own, index)) = indexed(name, -1) else { return Ok((None, None)) };
        let found = match own {
            "sb" => self.in_leb(self.ubifs(volume), 0, 0)?,
            "master" => self.master(volume, MASTER_LEB, index)?,
            "master2" => self.master(volume, MASTER_LEB + 1, index)?,
            "ltab" | "lsave" => {
                let master = self.newest_master(volume)?;
                let leb = self.number(&master, &format!("{own}_lnum"))?;
                let offset = self.number(&master, &format!("{own}_offs"))?;
                self.in_leb(self.ubifs(volume), leb, offset)?
            }
            _ => {
                // A kind has a point of its own.
                let rest = word.strip_prefix(plain).and_then(|rest| rest.strip_prefix('.'));
                let Some(rest) = rest else { return Ok((None, None)) };
                let (kind, field) = with_field(rest);
                let Some((kind, index)) = indexed(kind, 0) else { return Ok((None, None)) };
                return Ok((self.of_kind(&format!("{plain}.{kind}"), index)?, field));
            }
        };
        Ok((found, field))
    }

    fn at_sign(&self, place: &str) -> (Option<u64>, Option<String>) {
        let mut parts = place.splitn(3, '.');
        let number = |text: Option<&str>| text.and_then(value::parse_number);
        let block = number(parts.next());
        if !place.contains('.') {
            return (block, None);
        }
        let offset = number(parts.next());
        let at = block.zip(offset).and_then(|(block, offset)| self.in_block(block, offset));
        (at, parts.next().map(str::to_owned))
    }

    fn in_block(&self, block: u64, offset: u64) -> Option<u64> {
        let segments = &self.plan.segments;
        let segment = segments.iter().find(|segment| segment.format.block_size().is_some())?;
        let size = u64::from(segment.format.block_size()?);
        let at = block.checked_mul(size)?.checked_add(offset)?;
        (offset < size && at < segment.len).then(|| segment.offset + at)
    }

    /// Returns the place of a byte of a LEB: of the newest eraseblock that says it holds it.
    fn in_leb(&self, volume: Volume, leb: u64, offset: u64) -> Place {
        let segments = &self.plan.segments;
        let is_bare = |segment: &Segment| matches!(segment.format, Format::Ubifs { .. });
        if segments.iter().any(is_bare) {
            return Ok(self.in_block(leb, offset));
        }
        let mut newest: Option<(u64, u64)> = None;
        for segment in segments {
            let Format::Ubi(layout) = segment.format else { continue };
            let size = u64::from(layout.peb_size());
            if offset >= u64::from(layout.leb_size()) {
                continue;
            }
            for peb in (0..segment.len / size).map(|peb| segment.offset + peb * size) {
                let Some(vid) = vid_of(self.image.as_ref(), peb, &layout)? else { continue };
                let is_wanted = u64::from(vid.leb.get()) == leb
                    && volume.map_or(vid.volume.get() < 128, |id| id == vid.volume.get());
                if is_wanted && newest.is_none_or(|(sqnum, _)| vid.sqnum.get() >= sqnum) {
                    newest =
                        Some((vid.sqnum.get(), peb + u64::from(layout.data_offset()) + offset));
                }
            }
        }
        Ok(newest.map(|(_, at)| at))
    }

    /// Returns the volume, or the first one with a UBIFS.
    fn ubifs(&self, volume: Volume) -> Volume {
        volume.or_else(|| self.plan.lpts.keys().next().map(|(_, volume)| *volume))
    }

    /// Returns the record of a volume in the first or second copy of the volume table.
    fn table_record(&self, copy: u64, id: &str) -> Place {
        let Some(id) = value::parse_number(id) else { return Ok(None) };
        let Some(start) = self.in_leb(Some(LAYOUT_VOLUME.get()), copy, 0)? else { return Ok(None) };
        let mut records = Vec::new();
        self.records(start, &mut |record| {
            if self.kind(&record) == "ubi.volume" {
                records.push(record.offset);
            }
        })?;
        Ok(usize::try_from(id).ok().and_then(|id| records.get(id)).copied())
    }

    fn master(&self, volume: Volume, leb: u32, index: i64) -> Place {
        let Some(start) = self.in_leb(self.ubifs(volume), leb.into(), 0)? else { return Ok(None) };
        let mut masters = Vec::new();
        self.records(start, &mut |record| {
            if self.kind(&record) == "ubifs.mst" {
                masters.push(record.offset);
            }
        })?;
        Ok(element(masters, index))
    }

    fn newest_master(&self, volume: Volume) -> Result<Found, Refusal> {
        match self.master(volume, MASTER_LEB, -1)? {
            Some(at) => self.record(at),
            None => usage("there is no master node of a UBIFS"),
        }
    }

    /// Returns the structure of a kind with this index, in the order of the image.
    fn of_kind(&self, kind: &str, index: i64) -> Place {
        let mut places = Vec::new();
        self.census()?.walk(&mut |entry| {
            if entry.kind() == kind {
                places.push(entry.record.offset);
            }
            Ok(())
        })?;
        if places.is_empty() {
            return usage(format!("there is no `{kind}`"));
        }
        let count = places.len();
        element(places, index)
            .map_or_else(|| usage(format!("there are {count} of `{kind}`")), |at| Ok(Some(at)))
    }

    /// Returns the record `step` records after the current one, or before it.
    fn neighbour(&self, step: &str) -> Place {
        let Ok(step) = step.parse::<i64>() else { return usage("expected: node +1 or node -1") };
        let at = self.current()?;
        let (mut starts, mut own) = (Vec::new(), 0);
        self.records(at, &mut |record| {
            if record.offset <= at {
                own = starts.len();
            }
            starts.push(record.offset);
        })?;
        let index = i64::try_from(own).unwrap_or(0) + step;
        let at = usize::try_from(index).ok().and_then(|index| starts.get(index)).copied();
        at.map_or_else(|| usage("the block ends there"), |at| Ok(Some(at)))
    }

    /// Returns an index node: `root`, or `root/2/0` for a child of a child.
    fn index(&self, volume: Volume, path: &str) -> Place {
        let mut parts = path.split('/');
        if parts.next() != Some("root") {
            return usage("expected: idx root, or idx root/2/0");
        }
        let mut node = self.newest_master(volume)?;
        let (mut leb, mut offset) = ("root_lnum".to_owned(), "root_offs".to_owned());
        loop {
            let (at, in_leb) = (self.number(&node, &leb)?, self.number(&node, &offset)?);
            let Some(at) = self.in_leb(self.ubifs(volume), at, in_leb)? else { return Ok(None) };
            let Some(child) = parts.next() else { return Ok(Some(at)) };
            node = self.record(at)?;
            (leb, offset) = (format!("branch[{child}].lnum"), format!("branch[{child}].offs"));
        }
    }

    /// Returns the root of the LEB properties tree, or the node that describes a LEB.
    fn lpt(&self, volume: Volume, word: &str) -> Place {
        let volume = self.ubifs(volume);
        let lpt = self.plan.lpts.iter().find(|((_, id), _)| Some(*id) == volume);
        let Some((_, lpt)) = lpt else { return usage("there is no UBIFS whose sizes are known") };
        let master = self.newest_master(volume)?;
        let (mut leb, mut offset) =
            (self.number(&master, "lpt_lnum")?, self.number(&master, "lpt_offs")?);
        let geometry = LptGeometry::new(lpt.inputs);
        let first = u64::from(lpt.inputs.leb_cnt.saturating_sub(lpt.inputs.main_lebs));
        let index = match (word, value::parse_number(word)) {
            ("root", _) => return self.in_leb(volume, leb, offset),
            (_, Some(leb)) if leb >= first && leb < u64::from(lpt.inputs.leb_cnt) => {
                (leb - first) / FANOUT
            }
            _ => {
                return usage(format!(
                    "expected: lpt root, or lpt N with a LEB from {first} to {}",
                    lpt.inputs.leb_cnt.saturating_sub(1)
                ));
            }
        };
        for level in (1..=geometry.height).rev() {
            let Some(at) = self.in_leb(volume, leb, offset)? else { return Ok(None) };
            let slot = index / FANOUT.pow(level - 1) % FANOUT;
            let node = self.record(at)?;
            leb = self.number(&node, &format!("branch[{slot}].lnum"))?;
            // Numbers of LEBs are stored from the first LEB of the area on.
            leb += u64::from(lpt.inputs.lpt_first.get());
            offset = self.number(&node, &format!("branch[{slot}].offs"))?;
        }
        self.in_leb(volume, leb, offset)
    }

    fn inode(&self, volume: Volume, ino: &str) -> Place {
        let Some(ino) = value::parse_number(ino) else { return Ok(None) };
        let (key, ino) = (format!("{ino}/ino"), ino.to_string());
        self.best(volume, &format!("there is no inode {ino}"), &|entry| match entry.kind() {
            "ubifs.ino" => entry.field(&["key"]).is_some_and(|own| own == key),
            "jffs2.inode" => entry.field(&["ino"]).is_some_and(|own| own == ino),
            _ => false,
        })
    }

    /// Returns the parent, the kind and the name of a key like `1/dent/motd`.
    pub(super) fn named_key(key: &str) -> Option<(u64, &'static str, Vec<u8>)> {
        let mut parts = key.splitn(3, '/');
        let parent = value::parse_number(parts.next()?)?;
        let kind = match parts.next()? {
            "dent" => "ubifs.dent",
            "xent" => "ubifs.xent",
            _ => return None,
        };
        let name = parts.next().filter(|name| value::parse_number(name).is_none())?;
        let name = value::parse_quoted(name).unwrap_or_else(|| name.as_bytes().to_vec());
        Some((parent, kind, name))
    }

    fn key(&self, volume: Volume, key: &str) -> Place {
        let missing = format!("there is no key {key}");
        match Self::named_key(key) {
            Some((parent, kind, name)) => self.best(volume, &missing, &|entry| {
                let is_kind = entry.kind() == kind
                    || (kind == "ubifs.dent" && entry.kind() == "jffs2.dirent");
                is_kind && entry_name(entry).is_some_and(|own| own == (parent, name.clone()))
            }),
            None => self.best(volume, &missing, &|entry| {
                entry.kind().starts_with("ubifs.")
                    && entry.field(&["key"]).is_some_and(|own| own == key)
            }),
        }
    }

    /// Returns the best structure that fits: a live one before others, then the newest.
    fn best(&self, volume: Volume, missing: &str, fits: &dyn Fn(&Entry<'_>) -> bool) -> Place {
        let mut best: Option<((bool, u64), u64)> = None;
        self.census()?.walk(&mut |entry| {
            let own = entry.record.vid.map(|vid| vid.volume.get());
            if volume.is_none_or(|volume| own.is_none_or(|own| own == volume)) && fits(entry) {
                let sqnum = entry.field(&["sqnum", "version"]);
                let sqnum = sqnum.and_then(|sqnum| value::parse_number(&sqnum)).unwrap_or(0);
                let rank = (entry.state == State::Live, sqnum);
                if best.is_none_or(|(other, _)| rank >= other) {
                    best = Some((rank, entry.record.offset));
                }
            }
            Ok(())
        })?;
        best.map_or_else(|| usage(missing), |(_, at)| Ok(Some(at)))
    }

    /// Returns the inode that a path leads to, by the entries that are live.
    fn path(&self, volume: Volume, path: &str) -> Place {
        let path = value::parse_quoted(path).unwrap_or_else(|| path.as_bytes().to_vec());
        let volume = self.ubifs(volume);
        let mut names: HashMap<(u64, Vec<u8>), u64> = HashMap::new();
        self.census()?.walk(&mut |entry| {
            let own = entry.record.vid.map(|vid| vid.volume.get());
            let is_here = volume.is_none_or(|volume| own.is_none_or(|own| own == volume));
            let is_entry = matches!(entry.kind(), "ubifs.dent" | "jffs2.dirent");
            if is_here
                && is_entry
                && matches!(entry.state, State::Live | State::Doubtful)
                && let Some(name) = entry_name(entry)
                && let Some(ino) = entry.field(&["inum", "ino"])
            {
                names.extend(value::parse_number(&ino).map(|ino| (name, ino)));
            }
            Ok(())
        })?;
        let mut ino = ROOT;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let Some(below) = names.get(&(ino, name.to_vec())) else {
                let name = String::from_utf8_lossy(name);
                return usage(format!("there is no `{name}` in inode {ino}"));
            };
            ino = *below;
        }
        self.inode(volume, &ino.to_string())
    }
}
