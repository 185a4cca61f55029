//! One call in the output of `strace`.

/// A file descriptor and its path, absolute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fd {
    number: u32,
    pub(super) path: Vec<u8>,
}

/// A call that succeeded.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    args: Vec<&'a str>,
    /// What it returned.
    pub(super) result: u64,
    returned: &'a str,
}

/// Returns the process (0 if none is named), the time in nanoseconds since 1970, and the rest of a
/// line; `None` if it has no time.
pub(super) fn timed(line: &str) -> Option<(u64, u64, &str)> {
    let line = line.trim_start();
    let (process, rest) = match line.strip_prefix("[pid") {
        Some(rest) => {
            let (process, rest) = rest.split_once(']')?;
            (process.trim().parse().ok()?, rest.trim_start())
        }
        None => match line.split_once(' ') {
            Some((process, rest)) if !process.contains('.') => {
                (process.parse().ok()?, rest.trim_start())
            }
            _ => (0, line),
        },
    };
    let (time, rest) = rest.split_once(' ')?;
    let (seconds, part) = time.split_once('.')?;
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, part.parse().ok()?);
    let nanos = if part.len() == 6 { micros.checked_mul(1000)? } else { return None };
    Some((process, seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?, rest.trim_start()))
}

/// Returns what follows `<... name resumed>`.
pub(super) fn resumed(text: &str) -> Option<&str> {
    text.strip_prefix("<... ")?.split_once(" resumed>").map(|(_, rest)| rest)
}

impl<'a> Call<'a> {
    /// Reads a call; `None` if it failed or is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        if name.is_empty() || !name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') {
            return None;
        }
        let (args, rest) = arguments(rest)?;
        let returned = rest.trim_start().strip_prefix('=')?.trim_start();
        let digits = returned.find(|it: char| !it.is_ascii_digit()).unwrap_or(returned.len());
        let result = returned[..digits].parse().ok()?;
        Some(Self { name, args, result, returned })
    }

    /// Returns an argument as it is written.
    pub(super) fn word(&self, at: usize) -> Option<&'a str> {
        self.args.get(at).copied()
    }

    /// Returns a decimal argument.
    pub(super) fn number(&self, at: usize) -> Option<u64> {
        self.word(at)?.parse().ok()
    }

    /// Returns an octal argument.
    pub(super) fn octal(&self, at: usize) -> Option<u32> {
        u32::from_str_radix(self.word(at)?, 8).ok()
    }

    /// Returns a text in quotes.
    pub(super) fn text(&self, at: usize) -> Option<Vec<u8>> {
        let quoted = self.word(at)?.strip_prefix('"')?;
        Some(unescaped(&quoted[..quoted.rfind('"')?]))
    }

    /// Returns a path in quotes, if it is absolute.
    pub(super) fn path(&self, at: usize) -> Option<Vec<u8>> {
        self.text(at).filter(|path| path.starts_with(b"/"))
    }

    /// Returns a path in quotes, relative to the directory that another argument names.
    pub(super) fn path_at(&self, dir: usize, at: usize) -> Option<Vec<u8>> {
        let path = self.text(at)?;
        if path.starts_with(b"/") {
            return Some(path);
        }
        let dir = bracketed(self.word(dir)?)?;
        Some(if path.is_empty() { dir } else { [dir, path].join(&b'/') })
    }

    /// Returns a file descriptor with its path.
    pub(super) fn fd(&self, at: usize) -> Option<Fd> {
        fd(self.word(at)?)
    }

    /// Returns the file descriptor that the call returned.
    pub(super) fn result_fd(&self) -> Option<Fd> {
        fd(self.returned)
    }

    /// Returns the size in the answer of fstat.
    pub(super) fn size(&self) -> Option<u64> {
        let answer = self.args.iter().find_map(|it| it.split_once("st_size="))?.1;
        answer.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
    }

    /// Returns all absolute paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        (0..self.args.len()).filter_map(|at| self.path(at).or_else(|| bracketed(self.args[at])))
    }
}

/// Reads `3</path>`.
fn fd(text: &str) -> Option<Fd> {
    let number = text.split('<').next()?.parse().ok()?;
    Some(Fd { number, path: bracketed(text)? })
}

/// Returns the path in angle brackets, if it is one.
fn bracketed(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once('<')?;
    let path = rest.split(['<', '>']).next()?;
    path.starts_with('/').then(|| unescaped(path))
}

/// Splits arguments at commas outside of quotes and brackets. Returns them and what follows the
/// closing one.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut args, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match byte {
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim();
                args.extend((!last.is_empty()).then_some(last));
                return Some((args, &text[at + 1..]));
            }
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Resolves the escapes of C.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let octal = rest.iter().take(3).take_while(|it| (b'0'..=b'7').contains(it)).count();
        if octal > 0 {
            let value = rest[..octal].iter().fold(0_u32, |sum, it| sum * 8 + u32::from(it - b'0'));
            bytes.push(u8::try_from(value).unwrap_or(b'?'));
            rest = &rest[octal..];
        } else if let Some((escape, after)) = rest.split_first() {
            bytes.push(match escape {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0B,
                b'f' => 0x0C,
                other => *other,
            });
            rest = after;
        }
    }
    bytes
}
