//! The device under test.

use crate::Shape;
use eraseblock_ubi::OpenOptions;

/// The wear-levelling threshold: small enough that UBI often moves LEBs.
const WL_THRESHOLD: u32 = 4;

/// UBI on a small chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UbiTarget {
    /// The chip.
    pub shape: Shape,
    /// Operations performed before anything is judged, so that the device has a history.
    pub warm_up: u32,
}

impl UbiTarget {
    /// Returns UBI on a chip without a history.
    pub fn new(shape: Shape) -> Self {
        Self { shape, warm_up: 0 }
    }

    /// Returns how the device is opened.
    pub(crate) fn open_options(self) -> OpenOptions {
        OpenOptions {
            wl_threshold: WL_THRESHOLD,
            image_seq: 0x1AB0_0001,
            fastmap: self.shape.uses_fastmap(),
            ..OpenOptions::default()
        }
    }
}
