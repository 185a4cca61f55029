//! Encoding of tar headers: ustar, with PAX records for values that do not fit.

use eraseblock_vfs::Attr;

/// Size of headers, and the unit to which contents are padded.
pub(super) const BLOCK: usize = 512;

/// The largest value of a 12-byte number field: 11 octal digits.
const MAX_LONG: u64 = 0o77_777_777_777;

/// The largest value of an 8-byte number field: 7 octal digits.
pub(super) const MAX_SHORT: u32 = 0o7_777_777;

/// The fields of a header to be written.
pub(super) struct Member<'a> {
    pub(super) path: &'a [u8],
    pub(super) link: &'a [u8],
    pub(super) type_flag: u8,
    /// Bytes that follow in the archive.
    pub(super) size: u64,
    pub(super) attr: &'a Attr,
    /// Keys and values that require PAX.
    pub(super) records: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Member<'_> {
    /// Returns the header, preceded by a PAX header if one is needed.
    pub(super) fn encode(mut self) -> Vec<u8> {
        self.add_records();
        let mut bytes = Vec::new();
        if !self.records.is_empty() {
            let mut body = Vec::new();
            for (key, value) in &self.records {
                push_record(&mut body, key, value);
            }
            let name = self.path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty());
            let name = name.unwrap_or(b".");
            let name = [b"PaxHeaders/", &name[..name.len().min(80)]].concat();
            let mut block = block(&name, b'x', body.len() as u64);
            put_octal(&mut block[100..108], 0o644);
            seal(&mut block);
            bytes.extend_from_slice(&block);
            bytes.extend_from_slice(&body);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.extend_from_slice(&self.block());
        bytes
    }

    /// Adds records for the fields that do not fit the header.
    fn add_records(&mut self) {
        let attr = self.attr;
        let mut add = |key: &str, value: Vec<u8>| self.records.push((key.into(), value));
        if self.path.len() > 100 {
            add("path", self.path.to_vec());
        }
        if self.link.len() > 100 {
            add("linkpath", self.link.to_vec());
        }
        if self.size > MAX_LONG {
            add("size", self.size.to_string().into_bytes());
        }
        for (key, id) in [("uid", attr.uid), ("gid", attr.gid)] {
            if id > MAX_SHORT {
                add(key, id.to_string().into_bytes());
            }
        }
        let (seconds, nanoseconds) = (attr.mtime.seconds, attr.mtime.nanoseconds);
        if nanoseconds != 0 || !(0..=MAX_LONG.cast_signed()).contains(&seconds) {
            add("mtime", decimal_time(seconds, nanoseconds).into_bytes());
        }
    }

    fn block(&self) -> [u8; BLOCK] {
        let attr = self.attr;
        let mut block = block(self.path, self.type_flag, self.size.min(MAX_LONG));
        put_octal(&mut block[100..108], u64::from(attr.permissions & 0o7777));
        put_octal(&mut block[108..116], u64::from(attr.uid.min(MAX_SHORT)));
        put_octal(&mut block[116..124], u64::from(attr.gid.min(MAX_SHORT)));
        let seconds = u64::try_from(attr.mtime.seconds).unwrap_or(0);
        put_octal(&mut block[136..148], seconds.min(MAX_LONG));
        put_text(&mut block[157..257], self.link);
        if matches!(self.type_flag, b'3' | b'4') {
            put_octal(&mut block[329..337], u64::from(attr.rdev.0));
            put_octal(&mut block[337..345], u64::from(attr.rdev.1));
        }
        seal(&mut block);
        block
    }
}

fn block(path: &[u8], type_flag: u8, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put_text(&mut block[..100], path);
    for range in [100..108, 108..116, 116..124, 136..148, 329..337, 337..345] {
        put_octal(&mut block[range], 0);
    }
    put_octal(&mut block[124..136], size);
    block[156] = type_flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block
}

fn put_text(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text[..len]);
}

/// Writes octal digits and a NUL; the value must fit.
fn put_octal(field: &mut [u8], mut value: u64) {
    if let Some((last, digits)) = field.split_last_mut() {
        *last = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 8) as u8;
            value /= 8;
        }
    }
    debug_assert_eq!(value, 0, "the value fits its field");
}

fn seal(block: &mut [u8; BLOCK]) {
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    put_octal(&mut block[148..155], sum);
}

/// Appends `LENGTH KEY=VALUE\n`, where LENGTH counts itself.
fn push_record(body: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    body.extend_from_slice(format!("{len} ").as_bytes());
    body.extend_from_slice(key);
    body.push(b'=');
    body.extend_from_slice(value);
    body.push(b'\n');
}

/// Formats seconds with a fraction; the fraction of a negative time counts away from zero.
fn decimal_time(seconds: i64, nanoseconds: u32) -> String {
    let (sign, seconds, nanoseconds) = match (seconds, nanoseconds) {
        (0.., nanoseconds) => ("", seconds.unsigned_abs(), nanoseconds),
        (_, 0) => ("-", seconds.unsigned_abs(), 0),
        (_, nanoseconds) => ("-", seconds.unsigned_abs() - 1, 1_000_000_000 - nanoseconds),
    };
    if nanoseconds == 0 {
        return format!("{sign}{seconds}");
    }
    let fraction = format!("{nanoseconds:09}");
    format!("{sign}{seconds}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for (value_len, start) in [(1, "8 "), (2, "9 "), (3, "11 "), (91, "99 "), (92, "101 ")] {
            let mut body = Vec::new();
            push_record(&mut body, b"abc", &vec![b'v'; value_len]);
            assert!(body.starts_with(start.as_bytes()), "{}", body.escape_ascii());
            assert_eq!(body.len().to_string(), start.trim());
        }
    }

    #[test]
    fn times_are_decimal() {
        assert_eq!(decimal_time(5, 0), "5");
        assert_eq!(decimal_time(5, 250_000_000), "5.25");
        assert_eq!(decimal_time(-2, 750_000_000), "-1.25");
        assert_eq!(decimal_time(-1, 500_000_000), "-0.5");
        assert_eq!(decimal_time(-3, 0), "-3");
        assert_eq!(decimal_time(i64::MIN, 1), "-9223372036854775807.999999999");
    }
}
