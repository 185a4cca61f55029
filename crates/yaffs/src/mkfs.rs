//! Builds a YAFFS2 image from a source tree, in process and without privileges (spec: yaffs2 12).
//!
//! The image is laid out as by the reference's image tool: all blocks have the lowest sequence
//! number, each header comes before the data of its file, and each chunk exists once. In addition it
//! has the root's attributes, xattrs and times of 64 bits.
//!
//! # Invariants
//! 1. The same tree and options give the same bytes.
//! 2. Memory does not grow with file contents: one chunk is in memory at a time.

mod error;
mod plan;

pub use error::{MkfsError, NodeProblem};

use crate::layout::{Layout, TagsPlace, Version};
use crate::mount;
use eraseblock_base::align::is_zero;
use eraseblock_vfs::source::{Content, SourceKind, SourceTree, read_part};
use eraseblock_yaffs_format::constants::{HEADER_LEN, SEQUENCES};
use eraseblock_yaffs_format::{Header, ObjectKind, PackedTags, xattr};
use plan::{Plan, Step};
use std::io::Write;

/// Bytes that the tags of a header without extra information state.
const HEADER_BYTES: u32 = 0xFFFF;

/// How an image is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsOptions {
    /// Where everything is on the pages.
    pub layout: Layout,
    /// Blocks that the image may have at most.
    pub most_blocks: Option<u32>,
}

/// The result of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MkfsReport {
    /// Bytes of the image, spare bytes included.
    pub image_bytes: u64,
    /// Blocks of the image.
    pub blocks: u32,
    /// Objects, further links included.
    pub objects: u32,
    /// Bytes of all files.
    pub content_bytes: u64,
    /// Chunks of headers and contents; chunks of zeros are left out.
    pub chunks: u32,
}

/// Builds the image of `tree` into `out`. `advance` hears of every part of a file that is done, in
/// bytes.
///
/// # Errors
///
/// Fails before anything is written if options or tree cannot be represented. After any other
/// failure, the bytes written so far are not an image.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut dyn Write,
    advance: &dyn Fn(u64),
) -> Result<MkfsReport, MkfsError> {
    check(&options.layout)?;
    let plan = Plan::new(tree, &options.layout)?;
    let report = MkfsReport { objects: plan.objects(), ..MkfsReport::default() };
    let mut writer = Writer { tree, options, out, report };
    writer.header(&Plan::root())?;
    for step in &plan.steps {
        writer.header(step)?;
        if let (false, SourceKind::Regular(content)) = (step.is_link(), &tree.node(step.node).kind)
        {
            writer.content(step, content.as_ref(), advance)?;
        }
    }
    writer.finish()
}

fn check(layout: &Layout) -> Result<(), MkfsError> {
    let is_small = layout.version == Version::Yaffs1;
    let is_in_spare = matches!(layout.place, TagsPlace::Spare(_));
    if is_small || layout.page < 1024 || is_in_spare && layout.spare < 32 {
        return Err(MkfsError::Small { page: layout.page, spare: layout.spare });
    }
    mount::check(layout).map_err(MkfsError::Layout)
}

struct Writer<'a> {
    tree: &'a SourceTree,
    options: &'a MkfsOptions,
    out: &'a mut dyn Write,
    report: MkfsReport,
}

impl Writer<'_> {
    /// Writes the header of an object.
    fn header(&mut self, step: &Step<'_>) -> Result<(), MkfsError> {
        let node = self.tree.node(step.node);
        let seconds = |time: eraseblock_vfs::Timestamp| u64::try_from(time.seconds).unwrap_or(0);
        let (kind, target, rdev) = match &node.kind {
            _ if step.is_link() => (ObjectKind::HardLink, &[][..], 0),
            SourceKind::Directory(_) => (ObjectKind::Directory, &[][..], 0),
            SourceKind::Regular(_) => (ObjectKind::File, &[][..], 0),
            SourceKind::Symlink(target) => (ObjectKind::Symlink, &target[..], 0),
            SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor) => {
                (ObjectKind::Special, &[][..], major << 8 | minor)
            }
            SourceKind::Fifo | SourceKind::Socket => (ObjectKind::Special, &[][..], 0),
        };
        let of_node = |value: u32| if step.is_link() { 0 } else { value };
        let size = match &node.kind {
            SourceKind::Regular(content) => content.size(),
            _ => 0,
        };
        let header = Header {
            kind,
            parent: step.parent,
            name: step.name.to_vec(),
            mode: of_node(node.file_kind().mode_bits() | node.permissions),
            uid: of_node(node.uid),
            gid: of_node(node.gid),
            atime: seconds(node.atime),
            mtime: seconds(node.mtime),
            ctime: seconds(node.ctime),
            size,
            equivalent: step.target,
            target: target.to_vec(),
            rdev,
            shadows: 0,
            is_shrink: false,
        };
        let layout = &self.options.layout;
        let mut data = header.encode(layout.order).to_vec();
        if !step.is_link() {
            let records: Vec<(&[u8], &[u8])> =
                node.xattrs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let area = xattr::encode(layout.order, &records, layout.data() as usize - HEADER_LEN);
            data.extend(area.ok_or_else(|| MkfsError::Node {
                path: plan::path_of(self.tree, step.node),
                problem: NodeProblem::Attributes(layout.data() as usize - HEADER_LEN),
            })?);
        }
        self.chunk(step.id, 0, HEADER_BYTES, &data)
    }

    /// Writes the chunks of a file. Chunks of zeros are holes.
    fn content(
        &mut self,
        step: &Step<'_>,
        content: &dyn Content,
        advance: &dyn Fn(u64),
    ) -> Result<(), MkfsError> {
        let path = || plan::path_of(self.tree, step.node);
        let failed = |error| MkfsError::Read { path: path(), error };
        let expected = content.size();
        let mut reader = content.open().map_err(failed)?;
        let mut buffer = vec![0; self.options.layout.data() as usize];
        let (mut chunk, mut rest) = (0, expected);
        loop {
            let len = rest.min(buffer.len() as u64) as usize;
            rest -= len as u64;
            let is_whole = read_part(&mut *reader, &mut buffer[..len], rest == 0);
            let is_whole = is_whole.map_err(|error| MkfsError::Read { path: path(), error })?;
            if !is_whole {
                return Err(MkfsError::Changed { path: path(), expected });
            }
            chunk += 1;
            if !is_zero(&buffer[..len]) {
                // A file may grow over the rest of its last chunk, which then reads as zeros.
                buffer[len..].fill(0);
                self.chunk(step.id, chunk, len as u32, &buffer)?;
            }
            advance(len as u64);
            self.report.content_bytes += len as u64;
            if rest == 0 {
                return Ok(());
            }
        }
    }

    fn chunk(&mut self, object: u32, chunk: u32, bytes: u32, data: &[u8]) -> Result<(), MkfsError> {
        let layout = &self.options.layout;
        if self.report.chunks.is_multiple_of(layout.pages_per_block) {
            let most = self.options.most_blocks;
            if let Some(most) = most.filter(|most| self.report.blocks >= *most) {
                return Err(MkfsError::TooLarge { most });
            }
            self.report.blocks += 1;
        }
        let packed = PackedTags { sequence: *SEQUENCES.start(), object, chunk, bytes };
        self.report.chunks += 1;
        self.put(&layout.raw_page(packed, data))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), MkfsError> {
        self.report.image_bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(MkfsError::Output)
    }

    /// Fills the last block up with erased pages.
    fn finish(mut self) -> Result<MkfsReport, MkfsError> {
        let layout = &self.options.layout;
        let pages = self.report.blocks * layout.pages_per_block - self.report.chunks;
        let erased = vec![0xFF; layout.raw() as usize];
        for _ in 0..pages {
            self.put(&erased)?;
        }
        Ok(self.report)
    }
}

#[cfg(test)]
mod tests;
