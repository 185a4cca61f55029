//! Random operations on a device in use against a simple model of what its LEBs hold, with
//! detaching and attaching among them.
#![allow(clippy::cast_possible_truncation)] // everything here is small

use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice, UbiError};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const PEB: u32 = 4096;
const PAGE: u32 = 512;

#[derive(Clone, Debug)]
enum Op {
    Append { volume: u8, leb: u8, pages: u8 },
    Change { volume: u8, leb: u8, pages: u8 },
    Map { volume: u8, leb: u8 },
    Unmap { volume: u8, leb: u8 },
    Erase { volume: u8, leb: u8 },
    Create { kind: bool, lebs: u8 },
    Remove { volume: u8 },
    Resize { volume: u8, lebs: u8 },
    Rename { volume: u8, other: u8 },
    Update { volume: u8, pages: u8 },
    Scrub { peb: u8 },
    Step,
    Reattach,
}

fn op() -> impl Strategy<Value = Op> {
    let v = 0..4_u8;
    let l = 0..6_u8;
    let p = 0..7_u8;
    prop_oneof![
        6 => (v.clone(), l.clone(), p.clone())
            .prop_map(|(volume, leb, pages)| Op::Append { volume, leb, pages }),
        4 => (v.clone(), l.clone(), p.clone())
            .prop_map(|(volume, leb, pages)| Op::Change { volume, leb, pages }),
        1 => (v.clone(), l.clone()).prop_map(|(volume, leb)| Op::Map { volume, leb }),
        3 => (v.clone(), l.clone()).prop_map(|(volume, leb)| Op::Unmap { volume, leb }),
        1 => (v.clone(), l).prop_map(|(volume, leb)| Op::Erase { volume, leb }),
        2 => (any::<bool>(), 1..8_u8).prop_map(|(kind, lebs)| Op::Create { kind, lebs }),
        1 => v.clone().prop_map(|volume| Op::Remove { volume }),
        1 => (v.clone(), 1..8_u8).prop_map(|(volume, lebs)| Op::Resize { volume, lebs }),
        1 => (v.clone(), v.clone()).prop_map(|(volume, other)| Op::Rename { volume, other }),
        2 => (v, 0..30_u8).prop_map(|(volume, pages)| Op::Update { volume, pages }),
        1 => (0..40_u8).prop_map(|peb| Op::Scrub { peb }),
        4 => Just(Op::Step),
        2 => Just(Op::Reattach),
    ]
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What may be there instead after attaching: the LEB was unmapped, not erased.
    ghosts: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Model {
    name: String,
    kind: VolumeKind,
    lebs: Vec<Content>,
    /// Bytes in a static volume.
    used: usize,
}

struct Bench {
    flash: Arc<MemoryMtd>,
    ubi: UbiDevice,
    volumes: BTreeMap<u32, Model>,
    stamp: u8,
}

const OPTIONS: OpenOptions = OpenOptions {
    read_only: false,
    force: false,
    force_rw: false,
    bitflip_threshold: 1,
    wl_threshold: 8,
    max_bad_blocks: None,
    image_seq: 9,
    fastmap: false,
};

fn layout() -> HeaderLayout {
    HeaderLayout::new(PEB, PAGE, PAGE, None).unwrap()
}

impl Bench {
    fn new() -> Self {
        let geometry = Geometry::new(MediumKind::Nand, PEB, 40, PAGE, PAGE, 16).unwrap();
        let flash = Arc::new(MemoryMtd::new(geometry));
        let ubi = UbiDevice::open(flash.clone(), &layout(), &OPTIONS).unwrap();
        Self { flash, ubi, volumes: BTreeMap::new(), stamp: 0 }
    }

    fn pages(&mut self, count: u8) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1) % 250;
        let stamp = self.stamp;
        (0..usize::from(count) * PAGE as usize).map(|at| stamp ^ (at / 7) as u8 & 0x3F).collect()
    }

    fn pick(&self, number: u8) -> Option<u32> {
        let ids: Vec<u32> = self.volumes.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[usize::from(number) % ids.len()])
    }

    /// A dynamic volume and a LEB of it.
    fn pick_leb(&self, volume: u8, leb: u8) -> Option<(u32, u32)> {
        let id = self.pick(volume)?;
        let model = &self.volumes[&id];
        let leb = u32::from(leb) % model.lebs.len() as u32;
        (model.kind == VolumeKind::Dynamic).then_some((id, leb))
    }

    fn content(&mut self, id: u32, leb: u32) -> &mut Content {
        &mut self.volumes.get_mut(&id).unwrap().lebs[leb as usize]
    }

    fn open(&self, id: u32) -> eraseblock_ubi::Volume {
        self.ubi.volume(VolumeId::new(id)).unwrap()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Append { volume, leb, pages } => {
                let Some((id, leb)) = self.pick_leb(volume, leb) else { return };
                let start = self.content(id, leb).bytes.len();
                let data = self.pages(pages);
                if start + data.len() > (PEB - 2 * PAGE) as usize {
                    return;
                }
                self.open(id).write(Leb::new(leb), start as u32, &data).unwrap();
                let content = self.content(id, leb);
                content.bytes.extend(data);
                content.ghosts.clear();
            }
            Op::Change { volume, leb, pages } => {
                let Some((id, leb)) = self.pick_leb(volume, leb) else { return };
                let data = self.pages(pages.min(6));
                self.open(id).change(Leb::new(leb), &data).unwrap();
                *self.content(id, leb) = Content { bytes: data, ghosts: Vec::new() };
            }
            Op::Map { volume, leb } => {
                let Some((id, leb)) = self.pick_leb(volume, leb) else { return };
                self.open(id).map(Leb::new(leb)).unwrap();
                self.content(id, leb).ghosts.clear();
            }
            Op::Unmap { volume, leb } => {
                let Some((id, leb)) = self.pick_leb(volume, leb) else { return };
                self.open(id).unmap(Leb::new(leb)).unwrap();
                let content = self.content(id, leb);
                let old = std::mem::take(&mut content.bytes);
                content.ghosts.push(old);
            }
            Op::Erase { volume, leb } => {
                let Some((id, leb)) = self.pick_leb(volume, leb) else { return };
                self.open(id).erase(Leb::new(leb)).unwrap();
                *self.content(id, leb) = Content::default();
            }
            Op::Scrub { peb } => {
                self.ubi.request_scrub(Peb::new(peb.into()));
            }
            Op::Step => {
                self.ubi.background_step().unwrap();
            }
            Op::Reattach => self.reattach(),
            _ => self.apply_to_volumes(op),
        }
    }

    fn apply_to_volumes(&mut self, op: &Op) {
        match *op {
            Op::Create { kind, lebs } => self.create(kind, lebs),
            Op::Remove { volume } => {
                let Some(id) = self.pick(volume) else { return };
                self.ubi.remove_volume(VolumeId::new(id)).unwrap();
                self.volumes.remove(&id);
            }
            Op::Resize { volume, lebs } => {
                let Some(id) = self.pick(volume) else { return };
                match self.ubi.resize_volume(VolumeId::new(id), lebs.into()) {
                    Ok(()) => {
                        let model = self.volumes.get_mut(&id).unwrap();
                        model.lebs.resize(lebs.into(), Content::default());
                    }
                    Err(UbiError::NoSpace { .. } | UbiError::Request { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Rename { volume, other } => {
                let (Some(id), Some(other)) = (self.pick(volume), self.pick(other)) else { return };
                let name = |name: &str| VolumeName::new(name).unwrap();
                let (mine, theirs) =
                    (self.volumes[&id].name.clone(), self.volumes[&other].name.clone());
                if id == other {
                    return;
                }
                let renames =
                    [(VolumeId::new(id), name(&theirs)), (VolumeId::new(other), name(&mine))];
                self.ubi.rename_volumes(&renames).unwrap();
                self.volumes.get_mut(&id).unwrap().name = theirs;
                self.volumes.get_mut(&other).unwrap().name = mine;
            }
            Op::Update { volume, pages } => {
                let Some(id) = self.pick(volume) else { return };
                let mut data = self.pages(pages);
                data.pop();
                let leb_size = (PEB - 2 * PAGE) as usize;
                let model = self.volumes.get_mut(&id).unwrap();
                data.truncate(leb_size * model.lebs.len());
                let len = data.len() as u64;
                self.ubi.update_volume(VolumeId::new(id), len, &mut &data[..]).unwrap();
                model.used = data.len();
                model.lebs.fill(Content::default());
                for (leb, part) in model.lebs.iter_mut().zip(data.chunks(leb_size)) {
                    let mut part = part.to_vec();
                    let fill = if model.kind == VolumeKind::Static { 0 } else { 0xFF };
                    part.resize(part.len().next_multiple_of(PAGE as usize), fill);
                    leb.bytes = part;
                }
            }
            _ => unreachable!("handled before"),
        }
    }

    fn create(&mut self, kind: bool, lebs: u8) {
        let kind = if kind { VolumeKind::Dynamic } else { VolumeKind::Static };
        self.stamp = self.stamp.wrapping_add(1) % 250;
        let name = format!("v{}-{}", self.stamp, self.volumes.len());
        if self.volumes.values().any(|model| model.name == name) {
            return;
        }
        let new = NewVolume {
            id: None,
            name: VolumeName::new(name.as_str()).unwrap(),
            kind,
            lebs: lebs.into(),
            alignment: 1,
            flags: VolumeFlags::default(),
        };
        match self.ubi.create_volume(&new) {
            Ok(id) => {
                let lebs = vec![Content::default(); lebs.into()];
                self.volumes.insert(id.get(), Model { name, kind, lebs, used: 0 });
            }
            Err(UbiError::NoSpace { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn reattach(&mut self) {
        self.ubi = UbiDevice::open(self.flash.clone(), &layout(), &OPTIONS).unwrap();
        let ids: Vec<u32> = self.volumes.keys().copied().collect();
        for id in ids {
            let volume = self.open(id);
            let model = self.volumes.get_mut(&id).unwrap();
            for (leb, content) in (0..).zip(&mut model.lebs) {
                let now = read(&volume, leb);
                let back = content.ghosts.iter().find(|ghost| same(&now, ghost));
                if let Some(ghost) = back.filter(|ghost| !ghost.is_empty()) {
                    content.bytes = ghost.clone();
                    content.ghosts.clear();
                }
            }
        }
    }

    fn check(&self) {
        self.ubi.check_invariants().unwrap();
        let found = self.ubi.volumes();
        assert_eq!(found.len(), self.volumes.len());
        for info in found {
            let model = &self.volumes[&info.id.get()];
            assert_eq!(info.name.to_string(), model.name);
            assert_eq!(info.reserved_lebs as usize, model.lebs.len());
            assert!(!info.upd_marker && !info.corrupted);
            if model.kind == VolumeKind::Static {
                assert_eq!(info.used_bytes, model.used as u64);
                assert!(self.ubi.check_volume(info.id).unwrap());
            }
            let volume = self.open(info.id.get());
            for (leb, content) in (0..).zip(&model.lebs) {
                assert!(same(&read(&volume, leb), &content.bytes), "{op}", op = info.name);
            }
        }
    }
}

fn read(volume: &eraseblock_ubi::Volume, leb: u32) -> Vec<u8> {
    let mut buf = vec![0; volume.leb_size() as usize];
    volume.read(Leb::new(leb), 0, &mut buf).unwrap();
    buf
}

/// Returns whether the LEB holds these bytes and is erased after them.
fn same(leb: &[u8], bytes: &[u8]) -> bool {
    leb.starts_with(bytes) && leb[bytes.len()..].iter().all(|byte| *byte == 0xFF)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_device_holds_what_was_written(ops in proptest::collection::vec(op(), 1..120)) {
        let mut bench = Bench::new();
        for op in &ops {
            bench.apply(op);
            bench.check();
        }
        bench.ubi.flush().unwrap();
        bench.check();
        bench.reattach();
        bench.check();
    }
}
