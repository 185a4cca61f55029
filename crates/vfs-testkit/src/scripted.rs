//! Scripts of operations in text, content that identifies itself, and listings that show which
//! content a file has. A program in a guest and the judge on its host share them.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// Bytes of a record: 7 digits of the seed, a dot, 7 digits of its number, a line feed.
const RECORD: usize = 16;
/// Bytes that a listing shows as one value.
pub const BLOCK: usize = 4096;

/// Returns `len` bytes of the content of a seed: records that contain the seed and their number.
pub fn content(seed: u32, len: usize) -> Vec<u8> {
    let mut text = String::with_capacity(len + RECORD);
    let mut record = 0;
    while text.len() < len {
        let _ = writeln!(text, "{:07x}.{record:07x}", seed & 0xFFF_FFFF);
        record += 1;
    }
    text.truncate(len);
    text.into_bytes()
}

/// Returns the values of the blocks of a file's bytes, FNV-1a of 64 bits each.
pub fn blocks(bytes: &[u8]) -> Vec<u64> {
    let value = |block: &[u8]| {
        block.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
        })
    };
    bytes.chunks(BLOCK).map(value).collect()
}

/// A step of a script. Names are paths without spaces, relative to the directory of the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Creates a directory.
    MakeDir(String),
    /// Creates a file with this content, or replaces its content: name, seed, bytes.
    Write(String, u32, usize),
    /// Renames a file over another name.
    Rename(String, String),
    /// Removes a file.
    Remove(String),
    /// Makes a file or a directory durable: fsync(2).
    Sync(String),
    /// Makes everything durable: sync(2).
    SyncAll,
    /// Reports on the control disk that everything until here is done.
    Mark(u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeDir(name) => write!(f, "mkdir {name}"),
            Self::Write(name, seed, len) => write!(f, "write {name} {seed} {len}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Remove(name) => write!(f, "remove {name}"),
            Self::Sync(name) => write!(f, "fsync {name}"),
            Self::SyncAll => f.write_str("sync"),
            Self::Mark(number) => write!(f, "mark {number}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("no number: {line}"));
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[..] {
            ["mkdir", name] => Self::MakeDir(name.to_owned()),
            ["write", name, seed, len] => {
                let len = usize::try_from(number(len)?).map_err(|_| format!("too long: {line}"))?;
                Self::Write(name.to_owned(), number(seed)?, len)
            }
            ["rename", from, to] => Self::Rename(from.to_owned(), to.to_owned()),
            ["remove", name] => Self::Remove(name.to_owned()),
            ["fsync", name] => Self::Sync(name.to_owned()),
            ["sync"] => Self::SyncAll,
            ["mark", mark] => Self::Mark(number(mark)?),
            _ => return Err(format!("no step of a script: {line}")),
        })
    }
}

/// An entry of a tree as its file system shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The path below the top.
    pub path: String,
    /// What it is.
    pub content: ListedContent,
}

/// The content of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListedContent {
    /// A directory.
    Directory,
    /// A file of that size with the values of its blocks.
    File(u64, Vec<u64>),
    /// It cannot be read, and the error.
    Error(String),
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            ListedContent::Directory => write!(f, "dir {}", self.path),
            ListedContent::File(size, blocks) => {
                write!(f, "file {} {size}", self.path)?;
                blocks.iter().try_for_each(|block| write!(f, " {block:016x}"))
            }
            ListedContent::Error(error) => write!(f, "error {} {error}", self.path),
        }
    }
}

impl FromStr for Listed {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no line of a listing: {line}");
        let (kind, rest) = line.split_once(' ').ok_or_else(wrong)?;
        let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let content = match kind {
            "dir" => ListedContent::Directory,
            "error" => ListedContent::Error(rest.to_owned()),
            "file" => {
                let mut words = rest.split(' ');
                let size = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                let block = |word: &str| u64::from_str_radix(word, 16).map_err(|_| wrong());
                ListedContent::File(size, words.map(block).collect::<Result<_, _>>()?)
            }
            _ => return Err(wrong()),
        };
        Ok(Self { path: path.to_owned(), content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_listings_survive_their_text() {
        let text = "mkdir d\nwrite d/a 7 5000\nfsync d/a\nrename d/a b\nremove b\nsync\nmark 3";
        let steps: Result<Vec<Step>, String> = text.lines().map(str::parse).collect();
        let again: Vec<String> = steps.unwrap().iter().map(Step::to_string).collect();
        assert_eq!(again.join("\n"), text);
        for wrong in ["", "write a 7", "write a b 7", "mark", "unlink a", "fsync a b"] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
        let blocks = blocks(&content(7, 5000));
        assert_eq!(blocks.len(), 2);
        let file = ListedContent::File(5000, blocks);
        for content in [file, ListedContent::Directory, ListedContent::Error("EIO".to_owned())] {
            let listed = Listed { path: "d/a".to_owned(), content };
            assert_eq!(listed.to_string().parse(), Ok(listed));
        }
        for wrong in ["", "file", "file a", "file a x", "file a 1 xyz", "link a"] {
            assert!(wrong.parse::<Listed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn contents_of_seeds_differ_in_every_block() {
        let [one, other] = [content(1, 9000), content(2, 9000)];
        assert_eq!((one.len(), &one[..16]), (9000, b"0000001.0000000\n".as_slice()));
        let pairs: Vec<_> = blocks(&one).into_iter().zip(blocks(&other)).collect();
        assert!(pairs.iter().all(|(one, other)| one != other) && pairs.len() == 3);
    }
}
