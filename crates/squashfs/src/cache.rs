//! Decompressed blocks that were used last.

use std::sync::{Arc, Mutex, PoisonError};

/// A few blocks, each with the place that it was read from.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    most: usize,
    /// The one used last comes last.
    blocks: Mutex<Vec<(u64, Arc<T>)>>,
}

impl<T> Cache<T> {
    /// Keeps `most` blocks.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, blocks: Mutex::new(Vec::with_capacity(most)) }
    }

    /// Returns the block at a place, which `read` reads if it is not there. Readers do not wait for each
    /// other while they read.
    pub(crate) fn get<E>(&self, at: u64, read: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let lock = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut blocks = lock();
        if let Some(index) = blocks.iter().rposition(|block| block.0 == at) {
            let block = blocks.remove(index);
            let found = Arc::clone(&block.1);
            blocks.push(block);
            return Ok(found);
        }
        drop(blocks);
        let made = Arc::new(read()?);
        let mut blocks = lock();
        if blocks.len() == self.most {
            blocks.remove(0);
        }
        blocks.push((at, Arc::clone(&made)));
        Ok(made)
    }
}
