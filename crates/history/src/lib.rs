//! What was on a UBIFS or a JFFS2 before: commits of the past, versions of files, deleted names.
//!
//! [`History::read`] looks at every node once (`nodes`), walks the index of the present state and of each
//! commit whose master node is left (`tree`), from the newest to the oldest, and collects what differs
//! (`versions`, with what commits say of their nodes: `evidence`). [`History::read_flash`] does it for JFFS2 by
//! the versions of nodes (`flash`). [`content`] reads a version.
//!
//! # Invariants
//! 1. The volume is only read.
//! 2. What is called *proven* was referred to by an index node: that inode and those blocks were one state
//!    of the file. In JFFS2, all nodes of the file up to that state are there. Everything else says in its [`Class`] what is missing.
//! 3. What is called *consistent* was found by its nodes alone, and no node is lost that could have been in
//!    between: the numbers of nodes have no gap there.
//! 4. A block is never filled from another version.

// Lengths and offsets refer to one LEB; block numbers have 29 bits by the size limit.
#![allow(clippy::cast_possible_truncation)]

pub mod content;
mod evidence;
mod flash;
mod history;
mod nodes;
mod tree;
mod versions;

pub use flash::FlashNodes;
pub use history::{CommitState, Deleted, History, OldBlocks};
pub use versions::{Attributes, Class, Seen, Version};
