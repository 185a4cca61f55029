//! The command-line syntax of partitions (spec: mtd-nand 2.2).

use std::error::Error;
use std::fmt;
/// The length of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartSize {
    /// This many bytes.
    Bytes(u64),
    /// The rest of the device.
    Rest,
}

/// One partition of a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartSpec {
    /// Its length.
    pub size: PartSize,
    /// Its offset; by default the end of the previous partition.
    pub offset: Option<u64>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// `ro`: it must not be written.
    pub read_only: bool,
    /// `lk`: the power-up lock is kept.
    pub keep_locked: bool,
    /// `slc`: multi-level cells are used with one bit each.
    pub slc: bool,
}

/// The partitions of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceParts {
    /// The device's name (mtd-id).
    pub device: String,
    /// Its partitions in order.
    pub parts: Vec<PartSpec>,
}

/// A text that is not a partition list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionError {
    /// The byte offset of the error in the text.
    pub at: usize,
    /// The text found there.
    pub found: String,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, found, expected } = self;
        write!(f, "mtdparts, character {at}: found {found}, expected {expected}")
    }
}

impl Error for PartitionError {}

/// Parses `mtdparts` syntax, with or without the leading `mtdparts=`. If an id occurs more than
/// once, its last spec is used; the order is that of the text.
///
/// ```
/// let devices = eraseblock_mtd::partition::parse("mtdparts=nand:1m(boot)ro,-(rest)").unwrap();
/// assert_eq!(devices[0].device, "nand");
/// assert_eq!(devices[0].parts[1].name.as_deref(), Some("rest"));
/// ```
///
/// # Errors
///
/// Fails if the text does not follow the syntax; the error gives the position.
pub fn parse(text: &str) -> Result<Vec<DeviceParts>, PartitionError> {
    let start = if text.starts_with("mtdparts=") { "mtdparts=".len() } else { 0 };
    let mut parser = Parser { text, at: start };
    let mut devices = Vec::new();
    loop {
        devices.push(parser.device()?);
        if parser.at >= text.len() {
            return Ok(devices);
        }
        parser.expect(";", "`;` or the end")?;
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, PartitionError> {
        let found = match self.rest().chars().next() {
            Some(character) => format!("`{character}`"),
            None => "the end".to_owned(),
        };
        Err(PartitionError { at: self.at, found, expected })
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str, expected: &'static str) -> Result<(), PartitionError> {
        if self.take(word) { Ok(()) } else { self.fail(expected) }
    }

    /// Parses the device of a spec. The id may contain colons: it ends at the last one before the
    /// first `(` of the spec.
    fn device(&mut self) -> Result<DeviceParts, PartitionError> {
        let rest = self.rest();
        let head = rest.split([';', '(']).next().unwrap_or_default();
        let Some(colon) = head.rfind(':') else { return self.fail("a device name and `:`") };
        let device = head[..colon].to_owned();
        self.at += colon + 1;
        let mut parts = Vec::new();
        loop {
            let start = self.at;
            let part = self.part()?;
            let is_rest = part.size == PartSize::Rest;
            parts.push(part);
            if !self.take(",") {
                return Ok(DeviceParts { device, parts });
            }
            if is_rest {
                self.at = start;
                return self.fail("`-` only as the size of the last partition");
            }
        }
    }

    fn part(&mut self) -> Result<PartSpec, PartitionError> {
        let start = self.at;
        let size = if self.take("-") { PartSize::Rest } else { PartSize::Bytes(self.number()?) };
        if size == PartSize::Bytes(0) {
            self.at = start;
            return self.fail("a size above 0");
        }
        let offset = if self.take("@") { Some(self.number()?) } else { None };
        let name = if self.take("(") { Some(self.name()?) } else { None };
        let (read_only, keep_locked, slc) = (self.take("ro"), self.take("lk"), self.take("slc"));
        if !self.rest().is_empty() && !self.rest().starts_with([',', ';']) {
            return self.fail("`,`, `;` or the end");
        }
        Ok(PartSpec { size, offset, name, read_only, keep_locked, slc })
    }

    fn name(&mut self) -> Result<String, PartitionError> {
        let Some(end) = self.rest().find(')') else { return self.fail("a name and `)`") };
        let name = self.rest()[..end].to_owned();
        self.at += end + 1;
        Ok(name)
    }

    /// Parses a C integer (decimal, octal, hexadecimal) with an optional suffix.
    fn number(&mut self) -> Result<u64, PartitionError> {
        let rest = self.rest();
        let (digits, radix) = match rest.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&rest[2..], 16),
            [b'0', b'0'..=b'7', ..] => (&rest[1..], 8),
            _ => (rest, 10),
        };
        let len = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let Ok(number) = u64::from_str_radix(&digits[..len], radix) else {
            return self.fail("a number");
        };
        let suffix = digits.as_bytes().get(len).map(u8::to_ascii_lowercase);
        let powers = [b'k', b'm', b'g', b't', b'p', b'e'];
        let power = powers.iter().position(|letter| Some(*letter) == suffix);
        let shift = power.map_or(0, |power| 10 * (power + 1));
        let Some(bytes) = number.checked_mul(1 << shift) else {
            return self.fail("a number below 2^64");
        };
        self.at += rest.len() - digits.len() + len + usize::from(power.is_some());
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Placed, place};
    use super::*;

    fn on_4_mib(text: &str) -> Vec<Placed> {
        let devices = parse(text).unwrap();
        place(&devices[0].parts, 4 << 20, 128 << 10)
    }

    fn row(name: &str, offset: u64, size: u64, read_only: bool) -> Placed {
        Placed { name: name.to_owned(), offset, size, read_only }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn examples_of_the_specification() {
        // spec: mtd-nand 2.2
        let boot = [row("boot", 0, MIB, true), row("rest", MIB, 3 * MIB, false)];
        assert_eq!(on_4_mib("f:1m(boot)ro,-(rest)"), boot);
        let half = MIB / 2;
        let nameless =
            [row("Partition_000", 0, half, false), row("Partition_001", half, half, false)];
        assert_eq!(on_4_mib("f:512k,512k"), nameless);
        let overlap = [row("a", 0, MIB, false), row("b", 32 << 10, 64 << 10, true)];
        assert_eq!(on_4_mib("f:1m(a),64k@32k(b)"), overlap);
        let cut = [row("a", 0, 3 * MIB, false), row("b", 3 * MIB, MIB, false)];
        assert_eq!(on_4_mib("f:3m(a),3m(b)"), cut);
        assert!(parse("f:-(x),64k(y)").is_err());
    }

    #[test]
    fn rules_of_the_syntax() {
        let devices = parse("mtdparts=a:b:1M(x)rolk;c.0:0x20000@0200000(y)slc,-").unwrap();
        assert_eq!((devices[0].device.as_str(), devices[1].device.as_str()), ("a:b", "c.0"));
        let first = &devices[0].parts[0];
        assert!(first.read_only && first.keep_locked && !first.slc);
        let second = &devices[1].parts[0];
        assert_eq!((second.size, second.offset), (PartSize::Bytes(0x20000), Some(0o20_0000)));
        assert!(second.slc && devices[1].parts[1].name.is_none());
        assert_eq!(parse("f:1g(a:b)").unwrap()[0].device, "f");
        for text in [
            "",
            "f",
            "f:",
            "f:0",
            "f:1m(x",
            "f:1mro(x)",
            "f:1m(x)lkro",
            "f:1m x",
            "f:99999999999e",
            "f:1m@",
            "f:1m;",
            "f:1m,,1m",
            "f:x",
            "1m(a)",
            "f:-1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("f:1m(x)rw").unwrap_err();
        assert_eq!(
            error.to_string(),
            "mtdparts, character 7: found `r`, expected `,`, `;` or the end"
        );
    }

    #[test]
    fn partitions_at_and_behind_the_end() {
        let rows = on_4_mib("f:4m(a),1m(gone),1m@5m(empty)");
        assert_eq!(rows, [row("a", 0, 4 * MIB, false), row("empty", 5 * MIB, 0, false)]);
    }
}
