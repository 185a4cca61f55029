//! Contents of versions, and their digests.

use eraseblock::raw::history::content::Content;
use eraseblock::raw::history::{Seen, Version};
use eraseblock::raw::ubifs_format::constants::BLOCK_SIZE;
use eraseblock::raw::ubifs_format::node::file_type;
use eraseblock::raw::vfs::FsError;
use eraseblock::text;
use md5::Md5;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io;

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// What a content is identified by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Algorithm {
    /// For lists of known files
    Md5,
    /// SHA-256
    Sha256,
}

/// The digests of a content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Digests {
    /// MD5 in hexadecimal digits.
    pub(crate) md5: Option<String>,
    /// The same of SHA-256.
    pub(crate) sha256: Option<String>,
}

/// Computes digests.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    md5: Option<Md5>,
    sha256: Option<Sha256>,
}

impl Hasher {
    /// Begins the digests of these algorithms.
    pub(crate) fn new(algorithms: &[Algorithm]) -> Self {
        Self {
            md5: algorithms.contains(&Algorithm::Md5).then(Md5::new),
            sha256: algorithms.contains(&Algorithm::Sha256).then(Sha256::new),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    /// Returns the digests of all bytes.
    pub(crate) fn finish(self) -> Digests {
        Digests {
            md5: self.md5.map(|md5| text::hex(&md5.finalize())),
            sha256: self.sha256.map(|sha256| text::hex(&sha256.finalize())),
        }
    }
}

/// What a version can have as its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Bytes; also those of blocks without an inode.
    File,
    /// The target of a symbolic link.
    Link,
    /// Nothing.
    Other,
}

impl Kind {
    /// Returns that of a version.
    pub(crate) fn of(version: &Version) -> Self {
        match version.attributes.map_or(file_type::REGULAR, |known| known.mode & file_type::MASK) {
            file_type::REGULAR => Self::File,
            file_type::SYMLINK => Self::Link,
            _ => Self::Other,
        }
    }
}

/// Returns the numbers of versions in the order in which their contents are read fastest: those of one
/// state one after another.
pub(crate) fn by_state(versions: &[&Version]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..versions.len()).collect();
    let state = |index: &usize| match versions.get(*index).map(|version| version.seen) {
        Some(Seen::Commits { last, .. }) => Some(last),
        Some(Seen::Now { .. }) => Some(u64::MAX),
        Some(Seen::Nodes) | None => None,
    };
    order.sort_by_key(state);
    order
}

/// Takes a piece of a content: where it begins, its bytes, and why they cannot be read if they cannot.
type Sink<'a> = dyn FnMut(u64, &[u8], Option<FsError>) -> io::Result<()> + 'a;

/// Calls `sink` for each piece of a content in order. What cannot be read comes as zeros, a block at a
/// time, with the error. Fails if `sink` does.
pub(crate) fn pieces(content: &Content, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(CHUNK.min(content.size())).unwrap_or(0)];
    let (mut at, mut chunk) = (0, CHUNK);
    while at < content.size() {
        if at.is_multiple_of(CHUNK) {
            chunk = CHUNK;
        }
        let len = usize::try_from(chunk.min(content.size() - at)).unwrap_or(0);
        let buffer = buffer.get_mut(..len).unwrap_or_default();
        match content.read(at, buffer) {
            Ok(()) => sink(at, buffer, None)?,
            Err(_) if chunk > BLOCK_SIZE.into() => {
                // One block spoils no others.
                chunk = BLOCK_SIZE.into();
                continue;
            }
            Err(error) => {
                buffer.fill(0);
                sink(at, buffer, Some(error))?;
            }
        }
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_algorithms_asked_for() {
        let of = |algorithms: &[Algorithm]| {
            let mut hasher = Hasher::new(algorithms);
            hasher.update(b"a");
            hasher.update(b"bc");
            hasher.finish()
        };
        // RFC 1321, A.5; FIPS 180-2, B.1.
        let md5 = Some("900150983cd24fb0d6963f7d28e17f72".to_owned());
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let sha256 = Some(sha256.to_owned());
        assert_eq!(of(&[Algorithm::Md5]), Digests { md5: md5.clone(), sha256: None });
        assert_eq!(of(&[Algorithm::Sha256]), Digests { md5: None, sha256: sha256.clone() });
        assert_eq!(of(&[Algorithm::Sha256, Algorithm::Md5]), Digests { md5, sha256 });
        assert_eq!(of(&[]), Digests::default());
    }
}
