//! Reads a folder for an image and changes it according to the options.

use crate::error::{Context, Error};
use crate::observe::Observer;
use eraseblock_tree::dir::ReadOptions;
use eraseblock_tree::owners::IdMap;
use eraseblock_tree::selinux::FileContexts;
use eraseblock_tree::{devtable, owners, source, times};
use eraseblock_ubi::image::{VolumeSize, VolumeSpec};
use eraseblock_ubi_format::VolumeKind;
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{SourceKind, SourceTree, Timestamp};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Changes to a folder.
#[allow(clippy::struct_excessive_bools)] // each of them is independent
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    /// Device table.
    pub devtable: Option<PathBuf>,
    /// SELinux file contexts.
    pub selinux: Option<PathBuf>,
    /// Make everything owned by 0:0.
    pub squash_owner: bool,
    /// Take away set-id bits and write permission of group and others.
    pub squash_modes: bool,
    /// Squash first: what the device table says stays, as with mkfs.jffs2.
    pub table_wins: bool,
    /// Set all times to 1970.
    pub zero_times: bool,
    /// Rules for owners.
    pub map_uid: Vec<String>,
    /// Rules for groups.
    pub map_gid: Vec<String>,
    /// Extended attributes that are stored.
    pub xattrs: Xattrs,
}

/// The extended attributes that are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Xattrs {
    /// All of them.
    #[default]
    All,
    /// Those whose names begin like this.
    Only(&'static [&'static [u8]]),
    /// None.
    None,
}

/// Permission bits that squashing leaves.
const SQUASHED_MODE: u32 = 0o1755;

/// Reads the folder or archive at `path`; `output` is the image about to be written, which must
/// not lie in it.
///
/// The result depends on the content alone: access and change times are set from the modification
/// times, and with SOURCE_DATE_EPOCH nothing is younger than that. Fails with the path if something
/// cannot be read, or if the output lies in the folder.
pub fn load(
    path: &Path,
    options: &Adjustments,
    output: &Path,
    observer: &mut dyn Observer,
) -> Result<SourceTree, Error> {
    let exclude = fs::metadata(output).ok().filter(fs::Metadata::is_file);
    let read = ReadOptions {
        xattrs: options.xattrs != Xattrs::None,
        exclude_inode: exclude.map(|file| (file.dev(), file.ino())),
        ..ReadOptions::default()
    };
    observer.reads(path);
    observer.writes(output)?;
    let opened = source::open(path, &read).context(path.display())?;
    observer.report(opened.findings);
    let mut tree = opened.tree;
    adjust(&mut tree, options, observer)?;
    Ok(tree)
}

fn ids(tree: &SourceTree) -> Vec<NodeId> {
    tree.nodes().map(|(id, _)| id).collect()
}

fn squash(tree: &mut SourceTree, options: &Adjustments) {
    if options.squash_owner {
        owners::squash(tree);
    }
    if options.squash_modes {
        for id in ids(tree) {
            let node = tree.node_mut(id);
            if !matches!(node.kind, SourceKind::Symlink(_)) {
                node.permissions &= SQUASHED_MODE;
            }
        }
    }
}

/// Changes a tree as the options say: device table, owners, attributes, labels, times. Fails if an
/// option names something that is not in the tree.
pub fn adjust(
    tree: &mut SourceTree,
    options: &Adjustments,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    if options.table_wins {
        squash(tree, options);
    }
    if let Some(path) = &options.devtable {
        observer.reads(path);
        let text = fs::read(path).context(path.display())?;
        observer.report(devtable::apply(tree, &text).context(path.display())?);
    }
    if !options.table_wins {
        squash(tree, options);
    }
    owners::map(tree, &id_map(&options.map_uid)?, &id_map(&options.map_gid)?);
    for id in ids(tree) {
        let node = tree.node_mut(id);
        match options.xattrs {
            Xattrs::All => {}
            Xattrs::None => node.xattrs.clear(),
            Xattrs::Only(starts) => {
                node.xattrs.retain(|(name, _)| starts.iter().any(|start| name.starts_with(start)));
            }
        }
    }
    if let Some(path) = &options.selinux {
        observer.reads(path);
        let text = fs::read(path).context(path.display())?;
        FileContexts::parse(&text).context(path.display())?.apply(tree);
    }
    if let Some(epoch) = source_date_epoch()? {
        times::clamp(tree, epoch);
    }
    if options.zero_times {
        times::clamp(tree, Timestamp::default());
    }
    times::from_mtime(tree);
    Ok(())
}

/// A number for an image, made from its volumes and the hash of all contents; never 0, which means
/// "none".
pub fn image_seq(mut hash: Sha256, volumes: &[VolumeSpec]) -> u32 {
    for volume in volumes {
        let (kind, size) = match volume.size {
            VolumeSize::Content => (0_u8, 0),
            VolumeSize::Bytes(bytes) => (1, bytes),
            VolumeSize::Lebs(lebs) => (2, u64::from(lebs)),
            VolumeSize::UbinizeBytes(bytes) => (3, bytes),
        };
        hash.update(volume.id.get().to_be_bytes());
        hash.update((volume.name.as_bytes().len() as u64).to_be_bytes());
        hash.update(volume.name.as_bytes());
        hash.update([u8::from(volume.kind == VolumeKind::Static), kind]);
        hash.update(size.to_be_bytes());
        hash.update(volume.alignment.to_be_bytes());
    }
    let digest = hash.finalize();
    let word = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    word.max(1)
}

fn id_map(rules: &[String]) -> Result<IdMap, Error> {
    if rules.is_empty() {
        return Ok(IdMap::default());
    }
    IdMap::parse(&rules.join(",")).map_err(|error| Error::usage(error.to_string()))
}

/// The moment that SOURCE_DATE_EPOCH names.
fn source_date_epoch() -> Result<Option<Timestamp>, Error> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.ok_or_else(|| {
        Error::usage(format!(
            "SOURCE_DATE_EPOCH is {}, expected seconds since 1970",
            text.display()
        ))
    })?;
    Ok(Some(Timestamp::from_seconds(seconds)))
}
