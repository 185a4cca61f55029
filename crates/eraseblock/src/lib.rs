#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(any(feature = "build", feature = "edit"))]
pub mod accounting;
#[cfg(feature = "build")]
mod build;
#[cfg(feature = "build")]
pub mod builder;
#[cfg(all(feature = "edit", feature = "extract"))]
mod check;
pub mod codes;
#[cfg(feature = "serde")]
pub mod documents;
#[cfg(feature = "edit")]
mod edit;
pub mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod file;
mod fs;
mod image;
pub mod info;
#[cfg(feature = "build")]
pub mod medium;
#[cfg(feature = "fuse")]
pub mod mounts;
pub mod observe;
pub mod raw;
pub mod recovery;
#[cfg(feature = "build")]
pub mod source;
pub mod target;
pub mod text;

#[cfg(feature = "build")]
pub use build::{Build, BuildReport, BuiltVolume, Prepared, Sum, build};
#[cfg(all(feature = "edit", feature = "extract"))]
pub use check::{CheckReport, check};
#[cfg(feature = "edit")]
pub use edit::{Edit, EditVolume, edit};
pub use eraseblock_base::{Finding, Findings, Location, Severity};
pub use eraseblock_mtd::ReadAt;
#[cfg(feature = "extract")]
pub use eraseblock_tree::extract::{ExtractOptions, ExtractReport, Owners};
pub use eraseblock_ubi_format::VolumeKind;
pub use eraseblock_vfs::FileKind;
pub use error::{Error, ErrorKind, Result};
pub use file::{File, VolumeContent};
pub use fs::{DirEntry, FileSystem, Metadata};
pub use image::{Image, OpenOptions, Volume, VolumeRef, open};
pub use target::Format as Kind;
