//! How numbers, times and names are written for people.

mod escape;

use eraseblock_base::size::format_size;
pub use escape::{escape, unescape};

/// A size for people, followed by the exact number of bytes where the short form is rounded.
pub fn size(bytes: u64) -> String {
    let short = format_size(bytes);
    if bytes < 1024 { short } else { format!("{short} ({} bytes)", grouped(bytes)) }
}

/// A number with a blank between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `count` with its noun in the right number.
pub fn count(count: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { singular } else { plural })
}

/// A name as it can be shown on a terminal: control characters and bytes that are not UTF-8 are
/// written as escapes, a backslash is doubled.
pub fn name(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.extend(["\\x", &hex(&[*byte])]);
        }
    }
    text
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// A UUID with its dashes.
pub fn uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&hex(&[*byte]));
    }
    text
}

/// A moment in UTC: `2024-02-29 12:34:56`.
pub fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// Reads a moment: a day, a time of day and a zone, or none for UTC: `2024-02-29T12:34Z`,
/// `2024-02-29T12:34:56+01:00`, or as [`time`] writes it.
pub fn seconds(text: &str) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', ' '])?;
    let [year, month, date] = numbers::<3>(day, '-', &[4, 2, 2])?;
    let zone = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at_checked(zone)?;
    let [hour, minute, second] = match numbers::<3>(clock, ':', &[2, 2, 2]) {
        Some(parts) => parts,
        None => numbers::<2>(clock, ':', &[2, 2]).map(|[hour, minute]| [hour, minute, 0])?,
    };
    let ahead = match zone {
        "" | "Z" => 0,
        _ => {
            let [hours, minutes] = numbers::<2>(zone.get(1..)?, ':', &[2, 2])?;
            let ahead = (hours <= 14 && minutes < 60).then_some((hours * 60 + minutes) * 60)?;
            if zone.starts_with('-') { -ahead } else { ahead }
        }
    };
    // Days before each month, in years that begin in March.
    let shifted = (month + 9) % 12;
    let from_march = year - i64::from(month <= 2);
    let day_of_year = (153 * shifted + 2) / 5 + date - 1;
    let leaps = from_march.div_euclid(4) - from_march.div_euclid(100) + from_march.div_euclid(400);
    let days = from_march * 365 + leaps + day_of_year - 719_468;
    let is_valid =
        civil_date(days) == (year, month, date) && hour < 24 && minute < 60 && second < 60;
    is_valid.then_some(days * 86_400 + (hour * 60 + minute) * 60 + second - ahead)
}

/// Returns `N` numbers with so many digits each, if there is nothing else.
fn numbers<const N: usize>(text: &str, between: char, digits: &[usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == *digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Count from 0000-03-01, so that the leap day is the last day of a year.
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The permission letters of a POSIX mode: `-rwsr-xr-x`.
pub fn mode(kind: char, permissions: u32) -> String {
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = permissions >> shift & 7;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (permissions & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// `3` or `3 to 5`.
pub fn range(least: u64, most: u64) -> String {
    if least == most { grouped(least) } else { format!("{} to {}", grouped(least), grouped(most)) }
}

/// The size of content, and how much of a medium it takes.
#[cfg(feature = "build")]
pub(crate) fn content(bytes: u64, stored_bytes: u64) -> String {
    let size = format_size(bytes);
    if bytes == 0 {
        return format!("{size} of content");
    }
    let percent = u128::from(stored_bytes) * 100 / u128::from(bytes);
    format!("{size} of content in {} ({percent}%)", format_size(stored_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(size(131_072), "128 KiB (131 072 bytes)");
        assert_eq!(size(17), "17 bytes");
        assert_eq!(count(1, "file", "files"), "1 file");
    }

    #[test]
    fn names_cannot_disturb_a_terminal() {
        assert_eq!(name(b"plain \xc3\xa4"), "plain \u{e4}");
        assert_eq!(name(b"a\x1b[31m\n\\\xff"), "a\\u{1b}[31m\\n\\\\\\xff");
    }

    #[test]
    fn uuids_have_dashes() {
        let bytes = std::array::from_fn(|index| u8::try_from(index).unwrap());
        assert_eq!(uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for at in (-30_000_i64..60_000).map(|at| at * 86_399 + 7).filter(|at| *at > -62_000_000_000)
        {
            assert_eq!(seconds(&time(at)), Some(at), "{}", time(at));
        }
        for (text, expected) in [
            ("1970-01-01T00:00Z", Some(0)),
            ("2024-02-29T12:34:56Z", Some(1_709_210_096)),
            ("2024-02-29T12:34", Some(1_709_210_040)),
            ("2024-02-29T13:34+01:00", Some(1_709_210_040)),
            ("2024-02-29T07:04-05:30", Some(1_709_210_040)),
            ("2023-02-29T12:34Z", None),
            ("2024-13-01T12:34Z", None),
            ("2024-00-01T12:34Z", None),
            ("2024-01-01T24:00Z", None),
            ("2024-01-01T12:60Z", None),
            ("2024-01-01T12:34X", None),
            ("2024-01-01T12:34+1:00", None),
            ("2024-01-01T12:34+15:00", None),
            ("2024-01-01T1:34Z", None),
            ("2024-01-01T+1:34Z", None),
            ("2024-01-01", None),
            ("commit:1", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn times_and_modes() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(1_709_210_096), "2024-02-29 12:34:56");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(mode('-', 0o4755), "-rwsr-xr-x");
        assert_eq!(mode('d', 0o1777), "drwxrwxrwt");
        assert_eq!(mode('-', 0o2640), "-rw-r-S---");
    }
}
