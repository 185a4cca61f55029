//! The records of xattrs after an object header (spec: yaffs2 4).

use alloc::vec::Vec;
use eraseblock_base::ByteOrder;

/// Bytes before the name of a record: its length.
const LENGTH: usize = 4;
/// Bytes at the end of the area that stay free: the reference overruns its buffer otherwise.
const KEPT_FREE: usize = 4;

/// The records of an area, as name and value. Ends at the first that is none.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    order: ByteOrder,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Reads the records of the area: everything in the chunk after the header.
    pub fn new(order: ByteOrder, area: &'a [u8]) -> Self {
        Self { order, rest: area }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < LENGTH {
            return None;
        }
        let len = self.order.u32_at(self.rest, 0).cast_signed();
        let len =
            usize::try_from(len).ok().filter(|len| *len > LENGTH && *len < self.rest.len())?;
        let (record, rest) = self.rest.split_at(len);
        let record = &record[LENGTH..];
        let end = record.iter().position(|byte| *byte == 0)?;
        self.rest = rest;
        Some((&record[..end], &record[end + 1..]))
    }
}

/// Returns the area of `len` bytes with these records, or `None` if they do not fit.
pub fn encode(order: ByteOrder, records: &[(&[u8], &[u8])], len: usize) -> Option<Vec<u8>> {
    let mut area = Vec::with_capacity(len);
    for (name, value) in records {
        let length = LENGTH + name.len() + 1 + value.len();
        area.extend_from_slice(&order.u32_bytes(length as u32));
        area.extend_from_slice(name);
        area.push(0);
        area.extend_from_slice(value);
    }
    if area.is_empty() {
        area.resize(len, 0xFF);
        return Some(area);
    }
    if area.len() + KEPT_FREE > len {
        return None;
    }
    area.resize(area.len() + KEPT_FREE, 0);
    area.resize(len, 0xFF);
    Some(area)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_record_of_the_specification() {
        let bytes = b"\x0e\0\0\0user.x\0val";
        let mut area = bytes.to_vec();
        area.resize(64, 0xFF);
        let records: Vec<_> = Records::new(ByteOrder::Little, &area).collect();
        assert_eq!(records, [(&b"user.x"[..], &b"val"[..])]);
        let made = encode(ByteOrder::Little, &records, 64).unwrap();
        assert_eq!((&made[..14], &made[14..18], made[18]), (&bytes[..], &[0; 4][..], 0xFF));
    }

    #[test]
    fn records_end_before_the_area_does() {
        for order in ByteOrder::ALL {
            let value = vec![7; 20];
            let records = [(&b"user.a"[..], &b""[..]), (b"user.b", &value)];
            let len = 11 + 31 + 4;
            let area = encode(order, &records, len).unwrap();
            assert!(Records::new(order, &area).eq(records));
            assert_eq!(encode(order, &records, len - 1), None);
            // A record up to the last byte is not found by the reference either.
            assert_eq!(Records::new(order, &area[..42]).count(), 1);
            assert_eq!(Records::new(order, &area[..43]).count(), 2);
        }
        assert_eq!(encode(ByteOrder::Big, &[], 3).unwrap(), [0xFF; 3]);
    }

    #[test]
    fn garbage_has_no_records() {
        for area in [&[][..], &[0; 3], &[0xFF; 9], &[4, 0, 0, 0, 0], &[6, 0, 0, 0, 1, 1, 1, 1]] {
            assert_eq!(Records::new(ByteOrder::Little, area).count(), 0);
        }
    }
}
