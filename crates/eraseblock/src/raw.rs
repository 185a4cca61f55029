//! The layers of the flash stack below this crate, each a crate of its own.
//!
//! This module is not stable: names and behaviour may change with any release. A program that needs
//! only one layer can use its crate, `eraseblock-<layer>`.

pub use eraseblock_base as base;
#[cfg(feature = "cards")]
pub use eraseblock_card as card;
#[cfg(feature = "census")]
pub use eraseblock_census as census;
pub use eraseblock_codec as codec;
#[cfg(feature = "fuse")]
pub use eraseblock_fuse as fuse;
#[cfg(feature = "history")]
pub use eraseblock_history as history;
pub use eraseblock_jffs2 as jffs2;
pub use eraseblock_jffs2_format as jffs2_format;
#[cfg(feature = "lab")]
pub use eraseblock_lab as lab;
pub use eraseblock_mtd as mtd;
#[cfg(feature = "host")]
pub use eraseblock_mtd_host as mtd_host;
#[cfg(feature = "nand")]
pub use eraseblock_nand_recipe as nand_recipe;
#[cfg(any(feature = "build", feature = "chips"))]
pub use eraseblock_nandsim as nandsim;
#[cfg(feature = "cards")]
pub use eraseblock_nbd as nbd;
#[cfg(feature = "nfs")]
pub use eraseblock_nfs as nfs;
#[cfg(any(feature = "fuse", feature = "lab"))]
pub use eraseblock_recording as recording;
#[cfg(feature = "repair")]
pub use eraseblock_repair as repair;
#[cfg(any(feature = "build", feature = "extract"))]
pub use eraseblock_tree as tree;
pub use eraseblock_ubi as ubi;
pub use eraseblock_ubi_format as ubi_format;
pub use eraseblock_ubifs as ubifs;
pub use eraseblock_ubifs_format as ubifs_format;
pub use eraseblock_vfs as vfs;
#[cfg(feature = "lab")]
pub use eraseblock_vfs_testkit as vfs_testkit;
pub use eraseblock_yaffs as yaffs;
