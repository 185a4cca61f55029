//! Inodes and the trees of pointers to their blocks (spec: readonly-formats A.7, A.8).

use crate::error::LogfsError;
use crate::object::{self, Kind, Position};
use crate::open::Logfs;
use crate::raw::RawInode;
use crate::superblock::numbers;
use eraseblock_base::raw::Raw;
use eraseblock_mtd::Window;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pointers to blocks without a tree.
const DIRECT: u64 = 16;
/// Pointers of an inode.
pub(crate) const POINTERS: usize = 17;
/// Highest tree of a file.
const HEIGHT_MOST: u8 = 5;
/// The bit of a pointer that says that nothing below it is missing.
const FULL: u64 = 1 << 63;
/// Inode number of the file that contains the inodes.
pub(crate) const INODE_FILE: u64 = 1;

/// The pointers of an inode.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) ino: u64,
    pub(crate) height: u8,
    pub(crate) pointers: [u64; POINTERS],
}

impl Root {
    /// Takes the pointers of an inode as they are stored.
    pub(crate) fn new(ino: u64, height: u8, stored: &[u8]) -> Self {
        let mut pointers = [0; POINTERS];
        pointers.iter_mut().zip(numbers(stored)).for_each(|(to, from)| *to = from);
        Self { ino, height, pointers }
    }
}

/// An inode.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) raw: RawInode,
    pub(crate) root: Root,
}

/// A used block, or a part of the tree that cannot be read: the first position that the error concerns,
/// and the first after it.
pub(crate) type Visited = Result<(u64, u64), (u64, LogfsError)>;

impl Logfs {
    /// Returns an inode, or `None` if it does not exist.
    pub(crate) fn load(&self, ino: u64) -> Result<Option<Arc<Inode>>, LogfsError> {
        let Some(offset) = self.find(&self.inode_file, ino)? else { return Ok(None) };
        let inode = self.inodes.get(ino, || {
            let at = Position { ino: INODE_FILE, bix: ino, level: 0 };
            let bytes = self.object(&mut Window::new(), offset, (Kind::Inode, at, 0))?;
            let raw = RawInode::get(&bytes);
            if raw.height > HEIGHT_MOST {
                return Err(LogfsError::Field {
                    field: "height of the inode",
                    offset,
                    found: raw.height.into(),
                    expected: format!("at most {HEIGHT_MOST}"),
                });
            }
            Ok(Inode { raw, root: Root::new(ino, raw.height, &raw.pointers) })
        })?;
        Ok(Some(inode))
    }

    /// Reads an object.
    pub(crate) fn object(
        &self,
        window: &mut Window,
        offset: u64,
        which: (Kind, Position, usize),
    ) -> Result<Vec<u8>, LogfsError> {
        object::read(&self.medium, &self.aliases, window, offset, which)
    }

    /// Returns the pointers of a block.
    fn pointers(&self, offset: u64, at: Position) -> Result<Arc<Vec<u64>>, LogfsError> {
        self.blocks.get((at, offset), || {
            let bytes = self.object(&mut Window::new(), offset, (Kind::Block, at, 0))?;
            Ok(numbers(&bytes).collect())
        })
    }

    /// Returns where block `bix` of a file is, or `None` in a hole.
    pub(crate) fn find(&self, root: &Root, bix: u64) -> Result<Option<u64>, LogfsError> {
        let used = |pointer: u64| Some(pointer & !FULL).filter(|offset| *offset != 0);
        if bix < DIRECT {
            return Ok(used(root.pointers[bix as usize]));
        }
        let mut level = root.height.min(HEIGHT_MOST);
        if bix >> (9 * u32::from(level)) != 0 {
            return Ok(None);
        }
        let mut next = used(root.pointers[DIRECT as usize]);
        while let (Some(offset), 1..) = (next, level) {
            let pointers = self.pointers(offset, Position { ino: root.ino, bix, level })?;
            level -= 1;
            let index = (bix >> (9 * u32::from(level))) & 511;
            next = used(pointers[index as usize]);
        }
        Ok(next)
    }

    /// Calls `visit` for each used block of a file from position `from` on, in order, until it breaks.
    /// A part of the tree that cannot be read is skipped after `visit` has heard of it.
    pub(crate) fn blocks(
        &self,
        root: &Root,
        from: u64,
        visit: &mut dyn FnMut(Visited) -> ControlFlow<()>,
    ) {
        for bix in from..DIRECT {
            let offset = root.pointers[bix as usize] & !FULL;
            if offset != 0 && visit(Ok((bix, offset))).is_break() {
                return;
            }
        }
        let (level, offset) =
            (root.height.min(HEIGHT_MOST), root.pointers[DIRECT as usize] & !FULL);
        if level > 0 && offset != 0 {
            let at = Position { ino: root.ino, bix: 0, level };
            let _ = self.below(at, offset, from.max(DIRECT), visit);
        }
    }

    /// Visits what is below a block of pointers. The recursion ends at level 1, and a block is below one
    /// position only, as its own position says.
    fn below(
        &self,
        at: Position,
        offset: u64,
        from: u64,
        visit: &mut dyn FnMut(Visited) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let pointers = match self.pointers(offset, at) {
            Ok(pointers) => pointers,
            Err(error) => return visit(Err((at.bix.max(from), error))),
        };
        let step = 1_u64 << (9 * u32::from(at.level - 1));
        for (pointer, bix) in pointers.iter().zip((at.bix..).step_by(step as usize)) {
            let offset = pointer & !FULL;
            if offset == 0 || bix + step <= from {
                continue;
            }
            if at.level == 1 {
                visit(Ok((bix, offset)))?;
            } else {
                self.below(Position { bix, level: at.level - 1, ..at }, offset, from, visit)?;
            }
        }
        ControlFlow::Continue(())
    }
}
