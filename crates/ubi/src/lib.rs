//! UBI: attaching a flash device or image, and its volumes.

pub mod attach;
pub mod detect;
pub mod error;
pub mod image;
pub mod map;
pub mod volume;

pub use attach::{
    AttachOptions, Attachment, EraseCounters, PebCounts, PebInfo, PebState, Refusal, VolumeInfo,
    attach,
};
pub use detect::{DetectError, Detected, Hints, detect, detect_layout};
pub use error::UbiError;
pub use map::VolumeMap;
pub use volume::{Ubi, UbiVolume, VolumeReader};
