//! Flash contents created block by block, right or wrong.

use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::MemoryMtd;
use eraseblock_ubi::{AttachOptions, Ubi};
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::table::encode_table;
use eraseblock_ubi_format::*;
use std::sync::Arc;

/// A device under construction.
pub(crate) struct Flash {
    pub(crate) bytes: Vec<u8>,
    pub(crate) layout: HeaderLayout,
    pub(crate) peb_count: u32,
}

impl Flash {
    /// 128 blocks of 16 KiB with 512-byte pages, ec 1 everywhere, and no volume table.
    pub(crate) fn without_table() -> Self {
        Self::blank(HeaderLayout::new(16_384, 512, 256, None).unwrap(), 128)
    }

    /// Blocks with only erase-counter headers.
    pub(crate) fn blank(layout: HeaderLayout, peb_count: u32) -> Self {
        let bytes = vec![0xFF; (peb_count * layout.peb_size()) as usize];
        let mut flash = Self { bytes, layout, peb_count };
        for peb in 0..peb_count {
            flash.put_ec(peb, &flash.ec(1));
        }
        flash
    }

    /// Returns a flash with a table of these volumes in blocks 0 and 1.
    pub(crate) fn with(records: &[(u32, VolumeRecord)]) -> Self {
        let mut flash = Self::without_table();
        flash.put_table(0, 0, 1, records);
        flash.put_table(1, 1, 2, records);
        flash
    }

    /// Returns the device of the conformance table: volume 0, dynamic, 10 LEBs.
    pub(crate) fn standard() -> Self {
        Self::with(&[(0, record("vol", VolumeKind::Dynamic, 10))])
    }

    pub(crate) fn ec(&self, count: u32) -> EcHeader {
        EcHeader {
            erase_count: EraseCount::new(count.into()).unwrap(),
            vid_hdr_offset: self.layout.vid_hdr_offset(),
            data_offset: self.layout.data_offset(),
            image_seq: 77,
            end_mark: false,
        }
    }

    pub(crate) fn put_table(
        &mut self,
        peb: u32,
        leb: u32,
        sqnum: u64,
        records: &[(u32, VolumeRecord)],
    ) {
        let header =
            VidHeader { compat: Compat::Reject, volume: LAYOUT_VOLUME, ..dynamic(leb, sqnum) };
        let records: Vec<_> =
            records.iter().map(|(id, record)| (VolumeId::new(*id), record.clone())).collect();
        let mut table = encode_table(&self.layout, &records);
        table.resize(self.layout.table_size() as usize, 0);
        self.put_leb(peb, &header, &table);
    }

    pub(crate) fn put_leb(&mut self, peb: u32, header: &VidHeader, data: &[u8]) {
        self.poke(peb, self.layout.vid_hdr_offset(), &encode_vid(header));
        self.poke(peb, self.layout.data_offset(), data);
    }

    pub(crate) fn put_ec(&mut self, peb: u32, header: &EcHeader) {
        self.poke(peb, 0, &encode_ec(header));
    }

    pub(crate) fn poke(&mut self, peb: u32, offset: u32, data: &[u8]) {
        let start = (peb * self.layout.peb_size() + offset) as usize;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }

    /// Changes bytes of the header at `offset` and updates its checksum.
    pub(crate) fn forge(&mut self, peb: u32, header: u32, field: u32, data: &[u8]) {
        self.poke(peb, header + field, data);
        let start = (peb * self.layout.peb_size() + header) as usize;
        let crc = crc32(&self.bytes[start..start + 60]);
        self.poke(peb, header + 60, &crc.to_be_bytes());
    }

    /// Fills a block with 0xFF.
    pub(crate) fn clear(&mut self, peb: u32) {
        self.poke(peb, 0, &vec![0xFF; self.layout.peb_size() as usize]);
    }

    pub(crate) fn device(&self) -> Arc<MemoryMtd> {
        let layout = &self.layout;
        let geometry = Geometry::new(
            MediumKind::Nand,
            layout.peb_size(),
            self.peb_count,
            layout.min_io(),
            layout.header_unit(),
            0,
        );
        Arc::new(MemoryMtd::with_bytes(geometry.unwrap(), self.bytes.clone()))
    }

    pub(crate) fn attach(&self) -> Ubi {
        let options =
            AttachOptions { whole_device: true, verify_static: true, ..AttachOptions::default() };
        Ubi::attach(self.device(), &self.layout, &options).unwrap()
    }
}

pub(crate) fn record(name: &str, kind: VolumeKind, lebs: u32) -> VolumeRecord {
    VolumeRecord {
        reserved_lebs: lebs,
        alignment: 1,
        data_pad: 0,
        kind,
        upd_marker: false,
        name: VolumeName::new(name).unwrap(),
        flags: VolumeFlags::default(),
    }
}

/// Returns the header of a LEB of volume 0 written for the first time.
pub(crate) fn dynamic(leb: u32, sqnum: u64) -> VidHeader {
    VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::None,
        volume: VolumeId::new(0),
        leb: Leb::new(leb),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: SqNum::new(sqnum),
    }
}

/// Returns the header of an atomic change of a LEB of volume 0 to `data`.
pub(crate) fn copy(leb: u32, sqnum: u64, data: &[u8]) -> VidHeader {
    let data_size = u32::try_from(data.len()).unwrap();
    VidHeader { copy_flag: true, data_size, data_crc: crc32(data), ..dynamic(leb, sqnum) }
}

/// Returns the header of a LEB of static volume 0 of `used` LEBs.
pub(crate) fn fixed(leb: u32, used: u32, data: &[u8]) -> VidHeader {
    let sqnum = u64::from(leb) + 20;
    VidHeader {
        kind: VolumeKind::Static,
        copy_flag: false,
        used_lebs: used,
        ..copy(leb, sqnum, data)
    }
}

/// Returns the header of a LEB of an unknown internal volume.
pub(crate) fn internal(compat: Compat) -> VidHeader {
    VidHeader { compat, volume: VolumeId::new(0x7FFF_F123), ..dynamic(0, 50) }
}

/// Returns the block that holds a LEB of volume 0.
pub(crate) fn holder(ubi: &Ubi, leb: u32) -> Option<u32> {
    ubi.attachment().map(VolumeId::new(0))?.get(Leb::new(leb)).map(Peb::get)
}
