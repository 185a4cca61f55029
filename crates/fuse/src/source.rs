//! The name of an image in the list of mounts: its path, so that `umount` finds the image again.
//! Bytes that the list, or fusermount3, would garble are written as `%` and two digits.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns the name for the path of an image: without commas, backslashes, control characters and
/// bytes that are not UTF-8.
pub fn source_name(path: &Path) -> String {
    let mut name = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '%' | ',' | '\\' => push_code(&mut name, character as u8),
                other if other.is_ascii_control() => push_code(&mut name, other as u8),
                other => name.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_code(&mut name, *byte));
    }
    name
}

fn push_code(name: &mut String, byte: u8) {
    let _ = write!(name, "%{byte:02X}");
}

/// Returns the path for a name from [`source_name`].
pub fn source_path(name: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(decoded(name, b'%', 2, 16)))
}

/// Decodes text in which a mark and this many digits of a radix encode a byte. Anything else stands
/// for itself.
pub fn decoded(text: &[u8], mark: u8, digits: usize, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = if *first == mark { tail.get(..digits) } else { None };
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, radix).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[digits..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found_again() {
        let odd = [b"/a,b\\c%2C d\n".as_slice(), b"\xff\xc3\xa4", b"%", b"%%4", b"plain"];
        for bytes in odd {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            let name = source_name(&path);
            assert!(!name.contains([',', '\\', '\n']), "{name}");
            assert_eq!(source_path(name.as_bytes()), path, "{name}");
        }
        assert_eq!(source_name(Path::new("/a b,c")), "/a b%2Cc");
    }
}
