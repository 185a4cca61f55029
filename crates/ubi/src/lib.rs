//! UBI: finding it in an image ([`detect()`]), attaching it ([`Ubi`], [`attach()`]), reading its
//! volumes ([`UbiVolume`]), using it for writing ([`UbiDevice`]) and writing new images ([`image`]).
//!
//! ```
//! use eraseblock_base::VolumeId;
//! use eraseblock_mtd::ImageFile;
//! use eraseblock_ubi::image::{
//!     ContentSize, ImagePlan, ImageSpec, ReaderSource, VERSION, VolumeSize, VolumeSpec,
//! };
//! use eraseblock_ubi::{AttachOptions, Hints, Ubi, detect};
//! use eraseblock_ubi_format::{EraseCount, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
//! use std::io::Read;
//! use std::sync::Arc;
//!
//! let kernel = b"as it happens, a very small kernel";
//! let plan = ImagePlan::new(ImageSpec {
//!     layout: HeaderLayout::new(131_072, 2048, 512, None)?,
//!     erase_count: EraseCount::default(),
//!     image_seq: 1,
//!     version: VERSION,
//!     end_marks: 0,
//!     volumes: vec![VolumeSpec {
//!         id: VolumeId::new(0),
//!         name: VolumeName::new("kernel").expect("a short name"),
//!         kind: VolumeKind::Static,
//!         alignment: 1,
//!         size: VolumeSize::Lebs(4),
//!         flags: VolumeFlags::default(),
//!         content: ContentSize::Bytes(kernel.len() as u64),
//!     }],
//! })?;
//! let mut image = Vec::new();
//! plan.write(&mut image, &mut [&mut ReaderSource::new(&kernel[..])])?;
//!
//! let found = detect(&image, &Hints::default())?.expect("this is UBI");
//! let device = Arc::new(ImageFile::new(image, &found.shape())?);
//! let ubi = Ubi::attach(device, &found.layout, &AttachOptions::default())?;
//! let mut content = Vec::new();
//! ubi.volume_named(b"kernel")?.reader().read_to_end(&mut content)?;
//! assert_eq!(content, kernel);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
pub mod attach;
pub mod codes;
mod core;
pub mod detect;
mod eba;
pub mod error;
mod fastmap;
pub mod format;
pub mod image;
mod io;
pub mod locate;
pub mod map;
mod open;
pub mod runtime;
mod sync;
mod upd;
pub mod vmt;
pub mod volume;
mod vtbl;
mod wl;

pub use crate::core::Counters;
pub use attach::{
    AttachOptions, Attachment, EndMarks, EraseCounters, FastmapStatus, PebCounts, PebInfo,
    PebState, Refusal, VolumeInfo, attach, described_peb_count,
};
pub use detect::{DetectError, Detected, Hints, detect, detect_layout};
pub use error::UbiError;
pub use format::{FormatOptions, FormatReport, format};
pub use map::VolumeMap;
pub use runtime::{Health, OpenOptions, ReadOnlyReason, UbiDevice, Volume};
pub use vmt::NewVolume;
pub use volume::{Ubi, UbiVolume, VolumeReader};
