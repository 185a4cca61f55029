//! A card: its content, its translation layer and its power.

use crate::content::Content;
use crate::counters::{Counters, Wear};
use crate::error::CardError;
use crate::file::CardFile;
use crate::model::Model;
use crate::parameters::Parameters;
use eraseblock_base::random::SplitMix64;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A power cut at a page to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerCut {
    /// Pages that writes still store; the next one keeps its old content.
    pub after_pages: u64,
    /// Chooses which pages of the volatile cache are lost.
    pub seed: u64,
}

/// A simulated card.
#[derive(Debug)]
pub struct Card {
    parameters: Parameters,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    model: Model,
    content: Content,
    file: Option<CardFile>,
    writable: bool,
    /// The state in memory is newer than that in the file.
    changed: bool,
    cut: Option<PowerCut>,
    off: bool,
    /// Old content of the pages in the volatile cache, with the number of the write.
    cached: BTreeMap<u64, (u64, Vec<u8>)>,
}

/// Whether a write may stay in the volatile cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caching {
    Allowed,
    Through,
}

impl Card {
    /// Makes a card that is kept in memory.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Parameter`] if such a card cannot exist.
    pub fn in_memory(parameters: Parameters) -> Result<Self, CardError> {
        parameters.check()?;
        let content = Content::in_memory(parameters.erased_ones);
        Ok(Self::with(Model::new(parameters), content, None))
    }

    /// Makes a card in a sparse file; an existing file is replaced.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Parameter`] if such a card cannot exist, with [`CardError::InUse`] if
    /// another process has it open, or with the error of the host.
    pub fn create(path: &Path, parameters: &Parameters) -> Result<Self, CardError> {
        let file = CardFile::create(path, parameters)?;
        Self::with_file((file, Model::new(parameters.clone())))
    }

    /// Opens the card in a file, which is a power-on, as its only user.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Header`], [`CardError::Parameter`] or [`CardError::State`] if the
    /// file is not that of a card, with [`CardError::InUse`] if another process writes to it, or
    /// with the error of the host.
    pub fn open(path: &Path) -> Result<Self, CardError> {
        Self::with_file(CardFile::open(path)?)
    }

    /// Opens the card in a file for reading alone; others may use it at the same time.
    ///
    /// # Errors
    ///
    /// Those of [`Card::open`], except for [`CardError::InUse`].
    pub fn open_read_only(path: &Path) -> Result<Self, CardError> {
        Self::with_file(CardFile::open_read_only(path)?)
    }

    fn with_file((file, model): (CardFile, Model)) -> Result<Self, CardError> {
        let (content, start) = file.content(model.parameters())?;
        let content = Content::in_file(content, start, model.parameters().erased_ones);
        Ok(Self::with(model, content, Some(file)))
    }

    fn with(model: Model, content: Content, file: Option<CardFile>) -> Self {
        let parameters = model.parameters().clone();
        let writable = file.as_ref().is_none_or(CardFile::is_writable);
        let inner = Inner {
            model,
            content,
            file,
            writable,
            changed: false,
            cut: None,
            off: false,
            cached: BTreeMap::new(),
        };
        Self { parameters, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sizes and times.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns what the card has done.
    pub fn counters(&self) -> Counters {
        *self.inner().model.counters()
    }

    /// Returns the erases of the physical units.
    pub fn wear(&self) -> Wear {
        self.inner().model.wear()
    }

    /// Fills `buf`.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Range`] outside the card, with [`CardError::PowerOff`] after a power
    /// cut, or with the error of the host.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), CardError> {
        self.check_range(offset, buf.len() as u64)?;
        let mut inner = self.inner();
        inner.check_power()?;
        let read = inner.content.read(offset, buf);
        read.map_err(|source| inner.fail("read", source))?;
        inner.model.read(offset, buf.len() as u64);
        inner.changed = true;
        Ok(())
    }

    /// Writes `data`, which may stay in the volatile cache.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Range`] outside the card, with [`CardError::ReadOnly`] if it was not
    /// opened for writing, with [`CardError::PowerOff`] when the power goes off or is off, or with
    /// the error of the host.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), CardError> {
        self.write_by(offset, data, Caching::Allowed)
    }

    /// Writes `data` past the volatile cache.
    ///
    /// # Errors
    ///
    /// Those of [`Card::write`].
    pub fn write_through(&self, offset: u64, data: &[u8]) -> Result<(), CardError> {
        self.write_by(offset, data, Caching::Through)
    }

    fn write_by(&self, offset: u64, data: &[u8], caching: Caching) -> Result<(), CardError> {
        self.check_range(offset, data.len() as u64)?;
        let mut inner = self.inner();
        inner.check_writable()?;
        if data.is_empty() {
            return Ok(());
        }
        let page = u64::from(self.parameters.page);
        let pages = (offset + data.len() as u64 - 1) / page - offset / page + 1;
        let cut = inner.cut.filter(|cut| cut.after_pages < pages);
        let Some(cut) = cut else {
            if let Some(cut) = &mut inner.cut {
                cut.after_pages -= pages;
            }
            return inner.write_whole(offset, data, caching);
        };
        // Pages are programmed in order, each to a new place: the interrupted one keeps its old
        // content, and so do those after it.
        let end = ((offset / page + cut.after_pages) * page).max(offset);
        let stored = usize::try_from(end - offset).unwrap_or(data.len()).min(data.len());
        if stored > 0 {
            inner.write_whole(offset, &data[..stored], caching)?;
        }
        inner.power_off(cut.seed)?;
        Err(CardError::PowerOff)
    }

    /// Makes everything that was written durable, on the card and in its file.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::PowerOff`] after a power cut, or with the error of the host.
    pub fn flush(&self) -> Result<(), CardError> {
        let mut inner = self.inner();
        inner.check_power()?;
        inner.model.flush();
        inner.changed = true;
        inner.cached.clear();
        inner.sync()
    }

    /// Hints that a range is no longer needed: whole units in it may read as erased.
    ///
    /// # Errors
    ///
    /// Fails with [`CardError::Range`] outside the card, with [`CardError::ReadOnly`] if it was not
    /// opened for writing, with [`CardError::PowerOff`] after a power cut, or with the error of the
    /// host.
    pub fn trim(&self, offset: u64, len: u64) -> Result<(), CardError> {
        self.check_range(offset, len)?;
        let mut inner = self.inner();
        inner.check_writable()?;
        let erased = inner.model.trim(offset, len);
        inner.changed = true;
        if erased.is_empty() {
            return Ok(());
        }
        let end = erased.end.min(self.parameters.capacity);
        let done = inner.content.erase(erased.start, end - erased.start);
        done.map_err(|source| inner.fail("erase", source))?;
        let page = u64::from(self.parameters.page);
        inner.cached.retain(|number, _| !erased.contains(&(number * page)));
        Ok(())
    }

    /// Arms a power cut, or takes it back.
    pub fn arm_cut(&self, cut: Option<PowerCut>) {
        self.inner().cut = cut;
    }

    /// Switches the power on again after a cut.
    pub fn power_on(&self) {
        let mut inner = self.inner();
        inner.off = false;
        inner.model.power_on();
    }

    /// Returns whether the power is off.
    pub fn is_off(&self) -> bool {
        self.inner().off
    }

    /// Writes the state to the card's file and makes the file durable. For the card this is nothing:
    /// its cache keeps what was not flushed.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    pub fn sync(&self) -> Result<(), CardError> {
        self.inner().sync()
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<(), CardError> {
        let capacity = self.parameters.capacity;
        let end = offset.checked_add(length);
        if end.is_some_and(|end| end <= capacity) {
            return Ok(());
        }
        Err(CardError::Range { offset, length, capacity })
    }
}

impl Drop for Card {
    /// Saves the state; a failure leaves the last saved one.
    fn drop(&mut self) {
        let _ = self.inner().save();
    }
}

impl Inner {
    fn check_power(&self) -> Result<(), CardError> {
        if self.off { Err(CardError::PowerOff) } else { Ok(()) }
    }

    fn check_writable(&self) -> Result<(), CardError> {
        self.check_power()?;
        if self.writable { Ok(()) } else { Err(CardError::ReadOnly) }
    }

    fn fail(&self, operation: &'static str, source: std::io::Error) -> CardError {
        match &self.file {
            Some(file) => file.fail(operation, source),
            None => CardError::io(Path::new("memory"), operation, source),
        }
    }

    fn write_whole(&mut self, offset: u64, data: &[u8], caching: Caching) -> Result<(), CardError> {
        self.keep_old(offset, data.len() as u64, caching)?;
        let written = self.content.write(offset, data);
        written.map_err(|source| self.fail("write", source))?;
        self.model.write(offset, data.len() as u64);
        self.changed = true;
        Ok(())
    }

    /// Keeps the old content of the pages that are written to the volatile cache: a power cut may
    /// bring it back. The oldest pages leave a full cache.
    fn keep_old(&mut self, offset: u64, len: u64, caching: Caching) -> Result<(), CardError> {
        let parameters = self.model.parameters();
        let (room, page) = (parameters.cache_pages as usize, u64::from(parameters.page));
        let capacity = parameters.capacity;
        if room == 0 {
            return Ok(());
        }
        let order = self.model.counters().writes;
        for number in offset / page..=(offset + len - 1) / page {
            if caching == Caching::Through {
                self.cached.remove(&number);
                continue;
            }
            if !self.cached.contains_key(&number) {
                let len = page.min(capacity - number * page);
                let mut old = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                let read = self.content.read(number * page, &mut old);
                read.map_err(|source| self.fail("read", source))?;
                self.cached.insert(number, (order, old));
            }
            while self.cached.len() > room {
                let oldest = self.cached.iter().min_by_key(|(_, kept)| kept.0);
                let Some(oldest) = oldest.map(|(number, _)| *number) else { break };
                self.cached.remove(&oldest);
            }
        }
        Ok(())
    }

    /// The power goes off: each page of the cache is on the medium or not, as the seed chooses.
    fn power_off(&mut self, seed: u64) -> Result<(), CardError> {
        self.cut = None;
        self.off = true;
        let page = u64::from(self.model.parameters().page);
        let mut chance = SplitMix64::new(seed);
        for (number, (_, old)) in std::mem::take(&mut self.cached) {
            if chance.below(2) == 0 {
                let written = self.content.write(number * page, &old);
                written.map_err(|source| self.fail("write", source))?;
            }
        }
        self.model.power_on();
        self.save()
    }

    fn sync(&mut self) -> Result<(), CardError> {
        self.save()?;
        self.file.as_ref().filter(|_| self.writable).map_or(Ok(()), CardFile::sync)
    }

    fn save(&mut self) -> Result<(), CardError> {
        if !(self.writable && self.changed) {
            return Ok(());
        }
        if let Some(file) = &mut self.file {
            file.save(&self.model)?;
        }
        self.changed = false;
        Ok(())
    }
}
