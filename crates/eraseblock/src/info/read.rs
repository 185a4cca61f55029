//! A file system that is only read.

use crate::target::Format;
use crate::target::filesystem::Kind;
use crate::target::formats::{Fact, ReadImage};

/// A file system that is only read.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReadFacts {
    /// What it is.
    pub format: Format,
    /// The file.
    pub path: String,
    /// Its length in bytes.
    pub file_size: u64,
    /// What its superblock says.
    #[cfg_attr(feature = "serde", serde(flatten, serialize_with = "as_map"))]
    pub facts: Vec<Fact>,
}

impl ReadFacts {
    /// Returns the result of opening.
    pub(super) fn of(image: &ReadImage) -> Self {
        let facts = match image.opened.kind() {
            Kind::Read(_, facts) => facts.clone(),
            _ => Vec::new(),
        };
        let (path, file_size) = (image.path.display().to_string(), image.file_size);
        Self { format: image.format, path, file_size, facts }
    }
}

/// Facts as fields of a document.
#[cfg(feature = "serde")]
fn as_map<S: serde::Serializer>(facts: &[Fact], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(facts.iter().map(|fact| (fact.key, &fact.value)))
}
