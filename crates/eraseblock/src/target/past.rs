//! The past of a UBIFS in a file: its commits, versions of files and deleted names, and where in the file
//! their nodes are.

use super::image::{self, Image};
use super::{Place, Shape, Wanted, filesystem, peek};
use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_base::{Leb, VolumeId};
use eraseblock_history::History;
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::VolumeMap;
use std::sync::Arc;

/// A volume, and what is known of its past.
#[derive(Debug)]
pub struct Past {
    /// What is known.
    pub history: History,
    /// The volume.
    pub device: Arc<dyn LebDevice>,
    /// Its number in a UBI device.
    pub volume: Option<VolumeId>,
    /// Where each LEB begins in the file, if it is in a file and mapped.
    starts: Vec<Option<u64>>,
}

impl Past {
    /// Returns where in the file the first LEB begins.
    pub fn start(&self) -> Option<u64> {
        self.in_file(Leb::new(0), 0)
    }

    /// Returns whether places in the file are known.
    pub fn has_offsets(&self) -> bool {
        self.starts.iter().any(Option::is_some)
    }

    /// Returns where in the file a place in a LEB is; `None` if no bytes of the file are those of the LEB, as
    /// in raw dumps and simulated chips.
    pub fn in_file(&self, leb: Leb, offset: u32) -> Option<u64> {
        let start = self.starts.get(leb.get() as usize).copied().flatten()?;
        Some(start + u64::from(offset))
    }
}

/// Reads the past of the UBIFS that `args` names. Fails if there is none, or if it cannot be read.
pub fn read(args: &Wanted, observer: &mut dyn Observer) -> Result<Past, Error> {
    read_place(&Place::parse(&args.target)?, &args.shape, observer)
}

/// The same for a target that is taken apart already. Fails like [`read`].
pub fn read_place(
    place: &Place,
    shape: &Shape,
    observer: &mut dyn Observer,
) -> Result<Past, Error> {
    observer.keep_still(&place.path)?;
    let not_ubifs = || {
        Error::new(format!("{}: only UBIFS keeps commits of the past", place.path.display()))
            .with_kind(crate::ErrorKind::Unsupported)
    };
    let (device, volume, starts) = match image::open(place, shape, observer)? {
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
            if content.is_jffs2() || content.is_read_only() {
                return Err(not_ubifs());
            }
            let mut starts = vec![None; volume.leb_count() as usize];
            let attachment = ubi.attachment();
            let (layout, is_plain) = (attachment.layout, ubi.is_plain && ubi.dump.is_none());
            let map = attachment.map(id).filter(|_| is_plain);
            for (leb, peb) in map.into_iter().flat_map(VolumeMap::iter) {
                let begin = ubi.start + u64::from(peb.get()) * u64::from(layout.peb_size());
                if let Some(start) = starts.get_mut(leb.get() as usize) {
                    *start = Some(begin + u64::from(layout.data_offset()));
                }
            }
            (filesystem::grown(volume, &content) as Arc<dyn LebDevice>, Some(id), starts)
        }
        Image::Jffs2(_) | Image::Yaffs(_) | Image::Read(_) => return Err(not_ubifs()),
    };
    let bar = observer.progress(0, "history");
    let mut commits = None;
    let mut step = |left: u64| match commits {
        None => bar.total(*commits.insert(left)),
        Some(_) => bar.advance(1),
    };
    let history = History::read(&device, &mut step).context(place.path.display())?;
    Ok(Past { history, device, volume, starts })
}
