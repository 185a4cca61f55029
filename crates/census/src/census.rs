//! The census: for each record of an image its state, its key, and who refers to it.
//!
//! What is live is asked of the readers: the attached UBI device says which eraseblock holds a LEB, an
//! opened UBIFS which nodes a mount would see. JFFS2 has no index, so its versions decide.
//!
//! # Invariants
//! 1. The entries tile the image, in ascending order.
//! 2. At most 64 bytes are kept for a node, and nothing for bytes that are no node.

mod jffs2;
mod ubifs;

use crate::segment::{Format, Plan};
use crate::walk::{Family, Record, Tables, What, walk};
use eraseblock_base::Peb;
use eraseblock_base::field::{Show, Structure};
use eraseblock_mtd::{ImageFile, ImageShape, LebDevice, LebFile, ReadAt, Slice};
use eraseblock_ubi::attach::PebState;
use eraseblock_ubi::{AttachOptions, Ubi, VolumeMap};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, LAYOUT_VOLUME};
use eraseblock_ubi_format::fields::{EC, VID};
use eraseblock_ubi_format::types::VidHeader;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What a record is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Belongs to what a mount sees.
    Live,
    /// Something newer of the same key is valid.
    Superseded,
    /// A deletion, or something that one covers.
    Deleted,
    /// Found by a scan alone, because there is no usable index.
    Doubtful,
    /// A structure whose checksum is wrong.
    Torn,
    /// Fills up.
    Padding,
    /// Erased.
    Free,
    /// Explained by nothing.
    Garbage,
    /// In an eraseblock that lost its LEB to another one.
    OldBlock,
    /// Of another UBI image.
    Foreign,
    /// Outside of all formats that are known.
    Unknown,
}

impl State {
    /// All states.
    pub const ALL: [Self; 11] = [
        Self::Live,
        Self::Superseded,
        Self::Deleted,
        Self::Doubtful,
        Self::Torn,
        Self::Padding,
        Self::Free,
        Self::Garbage,
        Self::OldBlock,
        Self::Foreign,
        Self::Unknown,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Superseded => "superseded",
            Self::Deleted => "deleted",
            Self::Doubtful => "doubtful",
            Self::Torn => "torn",
            Self::Padding => "padding",
            Self::Free => "free",
            Self::Garbage => "garbage",
            Self::OldBlock => "old-block",
            Self::Foreign => "foreign",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A record of the census.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// Its structure, unless it is bytes.
    pub structure: Option<&'a Structure>,
    /// Its state.
    pub state: State,
    /// Whether all its checksums are right; `None` if it has none.
    pub sums_hold: Option<bool>,
    /// Where in the image the node begins that refers to it.
    pub by: Option<u64>,
}

impl Entry<'_> {
    /// Returns what kind of record it is.
    pub fn kind(&self) -> &'static str {
        match (self.structure, self.record.what) {
            (Some(structure), _) => structure.kind,
            (None, What::Run(_)) => "run",
            (None, _) => "bytes",
        }
    }

    /// Returns the first of these fields that the structure has, as text.
    pub fn field(&self, labels: &[&str]) -> Option<String> {
        let structure = self.structure?;
        let part = labels.iter().find_map(|label| structure.part(label))?;
        Some(crate::value::field(&part.field, self.record.bytes))
    }
}

type Facts = Box<ubifs::Facts>;

/// What is known of one segment.
#[derive(Debug)]
enum Known {
    Ubi {
        pebs: BTreeMap<u32, PebState>,
        mapped: BTreeMap<(u32, u32), Peb>,
        volumes: BTreeMap<u32, Facts>,
    },
    Ubifs(Option<Facts>),
    Jffs2(jffs2::Facts),
    Nothing,
}

/// A census that was taken.
#[derive(Debug)]
pub struct Census {
    image: Arc<dyn ReadAt>,
    plan: Plan,
    tables: Tables,
    known: Vec<Known>,
}

impl Census {
    /// Asks the readers what is live.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read. What no reader opens is no error: nothing in it is live.
    pub fn new(image: Arc<dyn ReadAt>, plan: Plan) -> io::Result<Self> {
        let mut census = Self { image, plan, tables: Tables::new(), known: Vec::new() };
        for index in 0..census.plan.segments.len() {
            let known = census.ask(index)?;
            census.known.push(known);
        }
        Ok(census)
    }

    /// Returns the image.
    pub fn image(&self) -> &dyn ReadAt {
        self.image.as_ref()
    }

    /// Returns how the image is cut.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the field tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    fn ask(&self, index: usize) -> io::Result<Known> {
        let segment = self.plan.segments[index];
        let part = || Slice::new(Arc::clone(&self.image), segment.offset, segment.len);
        match segment.format {
            Format::Ubi(layout) => Ok(ask_ubi(part()?, &layout)),
            Format::Ubifs { leb_size } => {
                let min_io = self.plan.lpts.get(&(index, 0)).map_or(8, |lpt| lpt.inputs.min_io);
                let device = LebFile::new(part()?, leb_size, min_io, None).ok();
                Ok(Known::Ubifs(device.and_then(|device| {
                    ubifs::Facts::of(&(Arc::new(device) as Arc<dyn LebDevice>)).map(Box::new)
                })))
            }
            Format::Jffs2 { .. } => {
                let facts = jffs2::Facts::of(self.image.as_ref(), &self.plan, &self.tables, index);
                Ok(Known::Jffs2(facts?))
            }
            Format::Bytes => Ok(Known::Nothing),
        }
    }

    /// Hands over all entries.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read, or with an error of `sink`.
    pub fn walk(&self, sink: &mut dyn FnMut(&Entry<'_>) -> io::Result<()>) -> io::Result<()> {
        walk(self.image.as_ref(), &self.plan, &self.tables, &mut |record| {
            let structure = self.tables.structure(&self.plan, record);
            let sums_hold = self.sums_hold(record);
            let (state, by) = self.state(record, sums_hold);
            sink(&Entry { record, structure, state, sums_hold, by })
        })
    }

    fn sums_hold(&self, record: &Record<'_>) -> Option<bool> {
        let What::Structure { family, kind, len } = record.what else { return None };
        let fields = self.tables.of(&self.plan, record.segment, family)?;
        let has_sums =
            fields.structures()[kind].head.iter().any(|part| part.field.show == Show::Sum);
        has_sums.then(|| fields.sums_hold(kind, &record.bytes[..len.min(record.bytes.len())]))
    }

    fn state(&self, record: &Record<'_>, sums_hold: Option<bool>) -> (State, Option<u64>) {
        if sums_hold == Some(false) {
            return (State::Torn, None);
        }
        let segment = self.plan.segments[record.segment];
        match (&self.known[record.segment], segment.format) {
            (Known::Ubi { pebs, mapped, volumes }, Format::Ubi(layout)) => {
                let own = record.offset - segment.offset;
                let peb = (own / u64::from(layout.peb_size())) as u32;
                let place = Place { offset: (own % u64::from(layout.peb_size())) as u32, layout };
                let current = |vid: &VidHeader| {
                    let holder = mapped.get(&(vid.volume.get(), vid.leb.get()));
                    holder.is_some_and(|holder| holder.get() == peb)
                };
                let is_current = record.vid.map(current);
                let state = in_peb(record, &place, pebs.get(&peb), is_current);
                let (None, Some(vid)) = (state, record.vid) else {
                    return (state.unwrap_or(State::Garbage), None);
                };
                let Some(facts) = volumes.get(&vid.volume.get()) else {
                    return (content(record), None);
                };
                let (state, by) = facts.state(record, vid.leb, place.offset - layout.data_offset());
                let by = by.and_then(|(leb, offset)| {
                    let peb = mapped.get(&(vid.volume.get(), leb.get()))?;
                    let at = u64::from(peb.get()) * u64::from(layout.peb_size());
                    Some(segment.offset + at + u64::from(layout.data_offset()) + u64::from(offset))
                });
                (state, by)
            }
            (Known::Ubifs(Some(facts)), Format::Ubifs { leb_size }) => {
                let own = record.offset - segment.offset;
                let size = u64::from(leb_size.max(1));
                let leb = eraseblock_base::Leb::new((own / size) as u32);
                let (state, by) = facts.state(record, leb, (own % size) as u32);
                let place = |(leb, offset): (eraseblock_base::Leb, u32)| {
                    segment.offset + u64::from(leb.get()) * size + u64::from(offset)
                };
                (state, by.map(place))
            }
            (Known::Jffs2(facts), _) => (facts.state(record), None),
            (Known::Nothing, _) => (State::Unknown, None),
            _ => (unopened(record), None),
        }
    }
}

/// Where in an eraseblock a record is.
struct Place {
    offset: u32,
    layout: HeaderLayout,
}

/// Returns the state of a record that its eraseblock alone decides; `None` for the content of a LEB.
fn in_peb(
    record: &Record<'_>,
    place: &Place,
    peb: Option<&PebState>,
    is_current: Option<bool>,
) -> Option<State> {
    let is_foreign = matches!(peb, Some(PebState::Foreign));
    let is_header = place.offset < place.layout.data_offset();
    match record.what {
        What::Run(0xFF) if is_header => return Some(State::Padding),
        What::Run(0xFF) => return Some(State::Free),
        _ if is_foreign => return Some(State::Foreign),
        What::Structure { family: Family::Ubi, kind: EC, .. } => return Some(State::Live),
        What::Run(0) if is_header => return Some(State::Padding),
        _ => {}
    }
    let internal = record.vid.map(|vid| vid.volume);
    let is_fastmap = [Some(FASTMAP_ANCHOR_VOLUME), Some(FASTMAP_DATA_VOLUME)].contains(&internal);
    if is_fastmap {
        let is_known = matches!(peb, Some(PebState::Fastmap));
        return Some(if is_known { State::Live } else { State::OldBlock });
    }
    match is_current {
        Some(false) => Some(State::OldBlock),
        Some(true) if internal == Some(LAYOUT_VOLUME) => Some(content(record)),
        Some(true)
            if matches!(record.what, What::Structure { family: Family::Ubi, kind: VID, .. }) =>
        {
            Some(State::Live)
        }
        Some(true) if is_header => Some(State::Garbage),
        Some(true) => None,
        None if matches!(record.what, What::Structure { .. }) => Some(State::OldBlock),
        None => Some(State::Garbage),
    }
}

/// Returns the state of content that no file system explains: it may mean something to its user.
fn content(record: &Record<'_>) -> State {
    if record.what == What::Run(0xFF) { State::Free } else { State::Live }
}

/// Returns the state of a record in a file system that nothing opens.
fn unopened(record: &Record<'_>) -> State {
    match record.what {
        What::Structure { .. } => State::Doubtful,
        What::Run(0xFF) => State::Free,
        _ => State::Garbage,
    }
}

fn ask_ubi(part: Slice, layout: &HeaderLayout) -> Known {
    let (mut pebs, mut mapped, mut volumes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let shape = ImageShape {
        start: 0,
        peb_size: layout.peb_size(),
        min_io: layout.min_io(),
        subpage: layout.header_unit(),
        peb_count: None,
    };
    let device = ImageFile::new(part, &shape).ok();
    let ubi = device
        .and_then(|device| Ubi::attach(Arc::new(device), layout, &AttachOptions::default()).ok());
    if let Some(ubi) = ubi {
        let attachment = ubi.attachment();
        for peb in 0..attachment.peb_count {
            pebs.extend(attachment.peb(Peb::new(peb)).map(|info| (peb, info.state)));
        }
        let ids = attachment.volumes.iter().map(|info| info.id).chain([LAYOUT_VOLUME]);
        for id in ids {
            let map = attachment.map(id);
            let places = map.into_iter().flat_map(VolumeMap::iter);
            mapped.extend(places.map(|(leb, peb)| ((id.get(), leb.get()), peb)));
        }
        for info in &attachment.volumes {
            let volume = ubi.volume(info.id).ok();
            let facts = volume.and_then(|volume| {
                ubifs::Facts::of(&(Arc::new(volume) as Arc<dyn LebDevice>)).map(Box::new)
            });
            volumes.extend(facts.map(|facts| (info.id.get(), facts)));
        }
    }
    Known::Ubi { pebs, mapped, volumes }
}
