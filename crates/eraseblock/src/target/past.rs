//! The past of a UBIFS or a JFFS2 in a file: its commits, versions of files and deleted names, and where in the file
//! their nodes are.

use super::filesystem::{self, Opened};
use super::image::{self, Image, Jffs2Image};
use super::old_blocks::WithOld;
use super::{Place, Shape, Wanted, peek};
use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_history::content::Contents;
use eraseblock_history::{FlashNodes, History, OldBlocks};
use eraseblock_jffs2::Info;
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::VolumeMap;
use std::sync::Arc;

/// A volume, and what is known of its past.
#[derive(Debug)]
pub struct Past {
    /// What is known.
    pub history: History,
    /// What it is on.
    pub medium: Medium,
    /// Its number in a UBI device.
    pub volume: Option<VolumeId>,
    /// Where each LEB begins in the file, if it is in a file and mapped; of a JFFS2, each eraseblock.
    starts: Vec<Option<u64>>,
    /// What LEBs of a UBIFS held before.
    old: Option<Arc<WithOld>>,
}

/// What a past is read from.
#[derive(Clone, Debug)]
pub enum Medium {
    /// The volume of a UBIFS.
    Ubifs(Arc<dyn LebDevice>),
    /// A JFFS2.
    Jffs2(Arc<FlashNodes>),
}

impl Medium {
    /// Returns what people call the file system, in lower case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ubifs(_) => "ubifs",
            Self::Jffs2(_) => "jffs2",
        }
    }

    /// Returns the bytes of a LEB or eraseblock, and how many there are.
    pub fn blocks(&self) -> (u32, u32) {
        match self {
            Self::Ubifs(device) => (device.leb_size(), device.leb_count()),
            Self::Jffs2(nodes) => (nodes.fs().info().shape.erase_size, nodes.fs().info().blocks),
        }
    }
}

impl Past {
    /// Opens contents of versions.
    pub fn contents(&self) -> Contents {
        match (&self.medium, &self.old) {
            (Medium::Ubifs(device), None) => Contents::new(Arc::clone(device)),
            (Medium::Ubifs(device), Some(old)) => {
                Contents::with_old(Arc::clone(device), Arc::clone(old) as Arc<dyn LebDevice>)
            }
            (Medium::Jffs2(nodes), _) => Contents::of_flash(Arc::clone(nodes)),
        }
    }

    /// Returns where in the file the first LEB begins.
    pub fn start(&self) -> Option<u64> {
        self.in_file(Leb::new(0), 0)
    }

    /// Returns whether places in the file are known.
    pub fn has_offsets(&self) -> bool {
        self.starts.iter().any(Option::is_some)
    }

    /// Returns the LEB that a node was in, and the block if that is an old one, which has lost the LEB.
    pub fn place_of(&self, leb: Leb) -> (Leb, Option<Peb>) {
        let old = self.old.as_ref().and_then(|old| old.block(leb));
        old.map_or((leb, None), |(leb, peb)| (leb, Some(peb)))
    }

    /// Returns where in the file a place in a LEB is; `None` if no bytes of the file are those of the LEB, as
    /// in raw dumps and simulated chips.
    pub fn in_file(&self, leb: Leb, offset: u32) -> Option<u64> {
        let start = self.starts.get(leb.get() as usize).copied().flatten()?;
        Some(start + u64::from(offset))
    }
}

/// Reads the past of the UBIFS or JFFS2 that `args` names. Fails if there is none, or if it cannot be read.
pub fn read(args: &Wanted, observer: &mut dyn Observer) -> Result<Past, Error> {
    read_place(&Place::parse(&args.target)?, &args.shape, observer)
}

/// The same, with what blocks of a UBI hold that have lost their LEB and are not erased yet. Fails like
/// [`read`], or if the target is no UBIFS in a UBI.
pub fn read_with_old(args: &Wanted, observer: &mut dyn Observer) -> Result<Past, Error> {
    let place = Place::parse(&args.target)?;
    read_any(&place, &args.shape, Old::Included, observer)
}

/// The same for a target that is taken apart already. Fails like [`read`].
pub fn read_place(
    place: &Place,
    shape: &Shape,
    observer: &mut dyn Observer,
) -> Result<Past, Error> {
    read_any(place, shape, Old::LeftOut, observer)
}

/// Whether old blocks are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Included,
    LeftOut,
}

fn read_any(
    place: &Place,
    shape: &Shape,
    old: Old,
    observer: &mut dyn Observer,
) -> Result<Past, Error> {
    let with_old = old == Old::Included;
    let no_old_blocks = || {
        let message = "only a UBIFS in a UBI has old blocks";
        Error::new(message).with_kind(crate::ErrorKind::Unsupported)
    };
    observer.keep_still(&place.path)?;
    let has_none = || {
        Error::new(format!("{}: only UBIFS and JFFS2 keep a past", place.path.display()))
            .with_kind(crate::ErrorKind::Unsupported)
    };
    let (device, volume, starts) = match image::open(place, shape, observer)? {
        Image::Ubifs(_) | Image::Jffs2(_) if with_old => return Err(no_old_blocks()),
        Image::Ubifs(bare) => {
            place.refuse_volume()?;
            let size = u64::from(bare.device.leb_size());
            let count = u64::from(bare.device.leb_count());
            let starts = (0..count).map(|leb| Some(bare.start + leb * size)).collect();
            (bare.device, None, starts)
        }
        Image::Ubi(ubi) => {
            let volume = ubi.file_system_volume(place.volume.as_deref())?;
            let id = volume.info().id;
            let content = peek::content(&volume);
            if content.is_read_only() {
                return Err(has_none());
            }
            let mut starts = vec![None; volume.leb_count() as usize];
            let attachment = ubi.attachment();
            let (layout, is_plain) = (attachment.layout, ubi.is_plain && ubi.dump.is_none());
            let map = attachment.map(id).filter(|_| is_plain);
            let begin = |peb: Peb| {
                let begin = ubi.start + u64::from(peb.get()) * u64::from(layout.peb_size());
                begin + u64::from(layout.data_offset())
            };
            for (leb, peb) in map.into_iter().flat_map(VolumeMap::iter) {
                if let Some(start) = starts.get_mut(leb.get() as usize) {
                    *start = Some(begin(peb));
                }
            }
            if content.is_jffs2() && with_old {
                return Err(no_old_blocks());
            }
            if with_old {
                let device = filesystem::grown(volume, &content) as Arc<dyn LebDevice>;
                starts.resize(device.leb_count() as usize, None);
                let old = WithOld::new(Arc::clone(&device), &ubi.ubi, id)?;
                starts.extend(old.pebs().map(|peb| is_plain.then(|| begin(peb))));
                return of_ubifs(device, Some(Arc::new(old)), Some(id), starts, place, observer);
            }
            if content.is_jffs2() {
                let opened = filesystem::open_volume(volume, Some(id), None, observer)?;
                return of_jffs2(opened, place, Some(id), |_| starts);
            }
            (filesystem::grown(volume, &content) as Arc<dyn LebDevice>, Some(id), starts)
        }
        Image::Jffs2(image) => {
            place.refuse_volume()?;
            let Jffs2Image { opened, plain_start, .. } = image;
            let starts = |info: &Info| {
                let begin = |block: u32| {
                    let own =
                        info.shape.start + u64::from(block) * u64::from(info.shape.erase_size);
                    plain_start.map(|start| start + own)
                };
                (0..info.blocks).map(begin).collect()
            };
            return of_jffs2(opened, place, None, starts);
        }
        Image::Yaffs(_) | Image::Read(_) => return Err(has_none()),
    };
    of_ubifs(device, None, volume, starts, place, observer)
}

fn of_ubifs(
    device: Arc<dyn LebDevice>,
    old: Option<Arc<WithOld>>,
    volume: Option<VolumeId>,
    starts: Vec<Option<u64>>,
    place: &Place,
    observer: &mut dyn Observer,
) -> Result<Past, Error> {
    let blocks = old.as_ref().map(|old| OldBlocks {
        device: Arc::clone(old) as Arc<dyn LebDevice>,
        lebs: device.leb_count()..old.leb_count(),
    });
    let bar = observer.progress(0, "history");
    let mut commits = None;
    let mut step = |left: u64| match commits {
        None => bar.total(*commits.insert(left)),
        Some(_) => bar.advance(1),
    };
    let history = History::read_with(&device, blocks.as_ref(), &mut step);
    let history = history.context(place.path.display())?;
    Ok(Past { history, medium: Medium::Ubifs(device), volume, starts, old })
}

/// Reads the past of a JFFS2; `starts` returns where its eraseblocks begin in the file.
fn of_jffs2(
    opened: Opened,
    place: &Place,
    volume: Option<VolumeId>,
    starts: impl FnOnce(&Info) -> Vec<Option<u64>>,
) -> Result<Past, Error> {
    let Some((fs, findings)) = opened.into_jffs2() else {
        return Err(Error::new(format!("{}: no JFFS2", place.path.display())));
    };
    let starts = starts(fs.info());
    let read = History::read_flash(Arc::new(fs), findings);
    let (history, nodes) = read.context(place.path.display())?;
    Ok(Past { history, medium: Medium::Jffs2(nodes), volume, starts, old: None })
}
