//! Modes as in chmod(1): octal, or changes such as `u+x,go=r`.

/// Returns the permissions after a change of `old`; `None` if `text` is no mode. Without one of
/// `ugoa`, a change applies to all three classes, regardless of the umask.
pub(super) fn changed(text: &str, old: u32, is_directory: bool) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    text.split(',').try_fold(old, |mode, clause| one(clause, mode, is_directory))
}

/// Who a clause is for, as the bits that belong to them: set-id and sticky bits included.
fn class(letter: u8) -> Option<u32> {
    match letter {
        b'u' => Some(0o4700),
        b'g' => Some(0o2070),
        b'o' => Some(0o1007),
        b'a' => Some(0o7777),
        _ => None,
    }
}

fn one(clause: &str, mut mode: u32, is_directory: bool) -> Option<u32> {
    let letters = clause.as_bytes();
    let end = letters.iter().position(|letter| class(*letter).is_none())?;
    let who =
        letters[..end].iter().filter_map(|letter| class(*letter)).fold(0, |all, bits| all | bits);
    let who = if end == 0 { 0o7777 } else { who };
    let mut rest = &letters[end..];
    while let Some((operator, after)) = rest.split_first() {
        let end = after.iter().position(|letter| b"+-=".contains(letter)).unwrap_or(after.len());
        let (permissions, next) = after.split_at(end);
        let bits = bits(permissions, mode, is_directory)? & who;
        match operator {
            b'+' => mode |= bits,
            b'-' => mode &= !bits,
            b'=' => mode = mode & !who | bits,
            _ => return None,
        }
        rest = next;
    }
    Some(mode)
}

/// The bits of permission letters, or of a class whose permissions are copied.
fn bits(letters: &[u8], mode: u32, is_directory: bool) -> Option<u32> {
    let copied = match letters {
        b"u" => Some(mode >> 6 & 7),
        b"g" => Some(mode >> 3 & 7),
        b"o" => Some(mode & 7),
        _ => None,
    };
    if let Some(bits) = copied {
        return Some(bits * 0o111);
    }
    letters.iter().try_fold(0, |all, letter| {
        let bits = match letter {
            b'r' => 0o444,
            b'w' => 0o222,
            b'x' => 0o111,
            b'X' if is_directory || mode & 0o111 != 0 => 0o111,
            b'X' => 0,
            b's' => 0o6000,
            b't' => 0o1000,
            _ => return None,
        };
        Some(all | bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_as_with_chmod() {
        for (text, old, new) in [
            ("4711", 0, 0o4711),
            ("u+x", 0o644, 0o744),
            ("+x", 0o644, 0o755),
            ("go-rwx", 0o755, 0o700),
            ("u=rw,go=r", 0o777, 0o644),
            ("a=", 0o4755, 0),
            ("g=u", 0o740, 0o770),
            ("u+s,g+s,+t", 0o755, 0o7755),
            ("u-s", 0o4755, 0o755),
            ("a+X", 0o644, 0o644),
            ("a+X", 0o744, 0o755),
            ("u+r-w", 0o200, 0o400),
        ] {
            assert_eq!(changed(text, old, false), Some(new), "{text}");
        }
        assert_eq!(changed("a+X", 0o644, true), Some(0o755));
        for text in ["", "9", "10000", "x", "u", "u+q", "u+x,", "z+x"] {
            assert_eq!(changed(text, 0o644, false), None, "{text}");
        }
    }
}
