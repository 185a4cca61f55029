//! Writes a planned image, as a stream or in place.

use super::fastmap::Extra;
use super::plan::{ImageError, ImagePlan, PlannedVolume};
use super::source::LebSource;
use eraseblock_base::crc::{crc32, crc32_continue};
use eraseblock_base::{Leb, VolumeId};
use eraseblock_ubi_format::constants::{LAYOUT_LEBS, LAYOUT_VOLUME};
use eraseblock_ubi_format::encode::{encode_ec, encode_vid, with_version};
use eraseblock_ubi_format::table::encode_table;
use eraseblock_ubi_format::{Compat, EcHeader, SqNum, VidHeader, VolumeKind};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

impl ImagePlan {
    /// Writes the whole image in order; `sources` has one content for each volume of the
    /// specification. Fails if a content is larger than its volume or cannot be read, or if `out`
    /// does.
    pub fn write(
        &self,
        out: &mut dyn Write,
        sources: &mut [&mut dyn LebSource],
    ) -> Result<(), ImageError> {
        if sources.len() != self.volumes.len() {
            let (found, expected) = (sources.len(), self.volumes.len());
            return Err(ImageError::Sources { found, expected });
        }
        let mut peb = self.empty_peb();
        self.each_layout_peb(&mut peb, |peb, _| out.write_all(peb))?;
        let extras = self.extras()?;
        let first = self.volumes.first().map_or(u32::MAX, |volume| volume.first_peb);
        let (before, after) = extras.split_at(extras.partition_point(|extra| extra.peb < first));
        for extra in before {
            out.write_all(&self.extra_peb(extra))?;
        }
        let data = self.spec.layout.data_offset() as usize;
        for (index, (volume, source)) in self.volumes.iter().zip(sources).enumerate() {
            for leb in 0..volume.lebs {
                let content = &mut peb[data..data + self.content_len(volume, leb)];
                source.read_leb(leb, content).map_err(|source| ImageError::Content {
                    volume: self.id(index),
                    leb,
                    source,
                })?;
                let crc = checksum(volume, content);
                self.put_headers(&mut peb, &self.vid_header(index, leb, crc));
                let used = data + self.content_len(volume, leb);
                peb[used..].fill(0xFF);
                out.write_all(&peb)?;
            }
        }
        for extra in after {
            out.write_all(&self.extra_peb(extra))?;
        }
        let mark = self.end_mark_peb();
        self.end_marks().try_for_each(|_| out.write_all(&mark))?;
        Ok(out.flush()?)
    }

    /// Adds everything but the contents to a file: the volume table, all headers and the bytes that
    /// stay erased. Call it after writing the contents; those of static volumes are read back for
    /// their checksums. Contents must fill their LEBs: see [`ImagePlan::data_offset`]. Fails if the
    /// file cannot be read or written.
    pub fn finish_in_place(&self, file: &File) -> Result<(), ImageError> {
        let mut peb = self.empty_peb();
        self.each_layout_peb(&mut peb, |peb, number| {
            file.write_all_at(peb, self.peb_offset(number))
        })?;
        let data = self.spec.layout.data_offset() as usize;
        peb.fill(0xFF);
        for (index, volume) in self.volumes.iter().enumerate() {
            for leb in 0..volume.lebs {
                let start = self.peb_offset(volume.first_peb + leb);
                let len = self.content_len(volume, leb);
                let crc = match volume.record.kind {
                    VolumeKind::Dynamic => 0,
                    VolumeKind::Static => read_checksum(file, start + data as u64, len)?,
                };
                self.put_headers(&mut peb, &self.vid_header(index, leb, crc));
                file.write_all_at(&peb[..data], start)?;
                file.write_all_at(&peb[data + len..], start + (data + len) as u64)?;
            }
        }
        for extra in self.extras()? {
            file.write_all_at(&self.extra_peb(&extra), self.peb_offset(extra.peb))?;
        }
        let mark = self.end_mark_peb();
        for peb in self.end_marks() {
            file.write_all_at(&mark, self.peb_offset(peb))?;
        }
        Ok(())
    }

    /// Returns the blocks of a fastmap, by ascending number.
    fn extras(&self) -> Result<Vec<Extra>, ImageError> {
        self.fastmap.map_or_else(|| Ok(Vec::new()), |fastmap| fastmap.extras(self))
    }

    fn extra_peb(&self, extra: &Extra) -> Vec<u8> {
        let mut peb = self.empty_peb();
        self.put_ec(&mut peb, &self.ec_header());
        if let Some(header) = &extra.header {
            self.put_headers(&mut peb, header);
        }
        peb[self.spec.layout.data_offset() as usize..][..extra.data.len()]
            .copy_from_slice(&extra.data);
        peb
    }

    fn empty_peb(&self) -> Vec<u8> {
        vec![0xFF; self.spec.layout.peb_size() as usize]
    }

    fn each_layout_peb(
        &self,
        peb: &mut [u8],
        mut write: impl FnMut(&[u8], u32) -> io::Result<()>,
    ) -> io::Result<()> {
        let records: Vec<(VolumeId, _)> = self
            .spec
            .volumes
            .iter()
            .zip(&self.volumes)
            .map(|(spec, planned)| (spec.id, planned.record.clone()))
            .collect();
        let table = encode_table(&self.spec.layout, &records);
        let data = self.spec.layout.data_offset() as usize;
        peb[data..data + table.len()].copy_from_slice(&table);
        for leb in 0..LAYOUT_LEBS {
            let header =
                VidHeader { compat: Compat::Reject, volume: LAYOUT_VOLUME, ..first_write(leb) };
            self.put_headers(peb, &header);
            write(peb, leb)?;
        }
        Ok(())
    }

    fn put_headers(&self, peb: &mut [u8], vid: &VidHeader) {
        self.put_ec(peb, &self.ec_header());
        let vid = with_version(encode_vid(vid), self.spec.version);
        let start = self.spec.layout.vid_hdr_offset() as usize;
        peb[start..start + vid.len()].copy_from_slice(&vid);
    }

    fn ec_header(&self) -> EcHeader {
        let layout = &self.spec.layout;
        EcHeader {
            erase_count: self.spec.erase_count,
            vid_hdr_offset: layout.vid_hdr_offset(),
            data_offset: layout.data_offset(),
            image_seq: self.spec.image_seq,
            end_mark: false,
        }
    }

    fn put_ec(&self, peb: &mut [u8], ec: &EcHeader) {
        let ec = with_version(encode_ec(ec), self.spec.version);
        peb[..ec.len()].copy_from_slice(&ec);
    }

    /// Returns an eraseblock with an end mark.
    fn end_mark_peb(&self) -> Vec<u8> {
        let mut peb = self.empty_peb();
        self.put_ec(&mut peb, &EcHeader { end_mark: true, ..self.ec_header() });
        peb
    }

    fn vid_header(&self, index: usize, leb: u32, data_crc: u32) -> VidHeader {
        let volume = &self.volumes[index];
        let common = VidHeader {
            volume: self.id(index),
            data_pad: volume.record.data_pad,
            ..first_write(leb)
        };
        match volume.record.kind {
            VolumeKind::Dynamic => common,
            VolumeKind::Static => VidHeader {
                kind: VolumeKind::Static,
                data_size: if leb + 1 == volume.lebs { volume.last_bytes } else { volume.usable },
                used_lebs: volume.lebs,
                data_crc,
                ..common
            },
        }
    }

    fn id(&self, index: usize) -> VolumeId {
        self.spec.volumes[index].id
    }

    fn content_len(&self, volume: &PlannedVolume, leb: u32) -> usize {
        let bytes = if leb + 1 == volume.lebs { volume.last_bytes } else { volume.usable };
        debug_assert!(bytes <= self.spec.layout.leb_size(), "content lies in its LEB");
        bytes as usize
    }
}

fn first_write(leb: u32) -> VidHeader {
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
        sqnum: SqNum::new(0),
    }
}

fn checksum(volume: &PlannedVolume, content: &[u8]) -> u32 {
    match volume.record.kind {
        VolumeKind::Dynamic => 0,
        VolumeKind::Static => crc32(content),
    }
}

fn read_checksum(file: &File, start: u64, len: usize) -> io::Result<u32> {
    const PIECE: usize = 1 << 16;
    let mut buf = vec![0; len.min(PIECE)];
    let mut crc = crc32(&[]);
    let mut done = 0;
    while done < len {
        let part = &mut buf[..PIECE.min(len - done)];
        file.read_exact_at(part, start + done as u64)?;
        crc = crc32_continue(crc, part);
        done += part.len();
    }
    Ok(crc)
}
