//! Decoded objects that are kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Most objects that a cache keeps; it begins again when it is full.
pub(crate) const KEPT: usize = 1024;

/// Objects by their position.
#[derive(Debug)]
pub(crate) struct Cache<K, T>(Mutex<HashMap<K, Arc<T>>>);

impl<K, T> Default for Cache<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Cache<K, T> {
    /// Returns an object, which `load` reads if it is not kept.
    pub(crate) fn get<E>(&self, key: K, load: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let map = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = map().get(&key) {
            return Ok(Arc::clone(object));
        }
        let object = Arc::new(load()?);
        let mut map = map();
        if map.len() >= KEPT {
            map.clear();
        }
        map.insert(key, Arc::clone(&object));
        Ok(object)
    }
}
