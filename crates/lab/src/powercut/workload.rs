//! Operations on a device and on the model of it, chosen by a seed: an endless, always equal list
//! for each seed and shape.

use super::model::{Allowed, Content, LebModel, Model, Torn, VolumeModel};
use super::{Options, Shape};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Fault, FaultPlan, Recorded};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice, UbiError, Volume};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Erase counters this far apart make UBI move LEBs: near enough to happen often.
const WL_THRESHOLD: u32 = 4;

/// Blocks that may go bad in a workload: fewer than UBI keeps in reserve.
const MOST_BAD: usize = 2;

/// How often UBI tries to erase a block.
const ERASE_TRIES: u64 = 4;

/// A chip, the device on it, and the model of the device.
pub(crate) struct Bench {
    chip: Arc<Chip>,
    options: Options,
    ubi: UbiDevice,
    model: Model,
    layout: HeaderLayout,
    random: SplitMix64,
    operations: u64,
    /// What the erase counters were, and how often the chip had erased each block by then.
    start: Vec<(u32, u32)>,
    /// The same when the workload began.
    first: Vec<(u32, u32)>,
    /// What happened in the background before the device was last opened.
    past: Counts,
}

/// How often what was done.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// One operation, done.
pub(crate) struct Step {
    pub(crate) allowed: Arc<Allowed>,
    /// What kind of operation.
    pub(crate) kind: &'static str,
    /// The flash events of it, each with the chip before it.
    pub(crate) events: Vec<Recorded>,
    /// What was wrong even without a cut.
    pub(crate) problem: Option<(&'static str, String)>,
}

#[derive(Clone, Debug)]
enum Op {
    Append {
        volume: u32,
        leb: u32,
        data: Vec<u8>,
    },
    Change {
        volume: u32,
        leb: u32,
        data: Vec<u8>,
    },
    Map {
        volume: u32,
        leb: u32,
    },
    Unmap {
        volume: u32,
        leb: u32,
    },
    Erase {
        volume: u32,
        leb: u32,
    },
    /// All of the LEB is read and compared.
    Read {
        volume: u32,
        leb: u32,
    },
    Scrub {
        peb: u32,
    },
    Step,
    Flush,
    Create {
        id: u32,
        is_static: bool,
        lebs: u32,
    },
    Remove {
        volume: u32,
    },
    Resize {
        volume: u32,
        lebs: u32,
    },
    Swap {
        volume: u32,
        other: u32,
    },
    Replace {
        volume: u32,
        other: u32,
    },
    Update {
        volume: u32,
        data: Vec<u8>,
    },
    /// Everything pending is done, then the device is closed and opened again.
    Reattach {
        detach: bool,
    },
}

pub(crate) fn open_options(options: &Options) -> OpenOptions {
    OpenOptions {
        wl_threshold: WL_THRESHOLD,
        image_seq: 0x1AB0_0001,
        fastmap: options.shape.uses_fastmap(),
        sabotage: options.sabotage,
        ..OpenOptions::default()
    }
}

impl Bench {
    /// A formatted chip.
    pub(crate) fn new(options: &Options) -> Result<Self, UbiError> {
        let Options { shape, seed, .. } = *options;
        let chip = Arc::new(shape.chip());
        let layout = shape.layout();
        let healthy = Options { sabotage: eraseblock_ubi::sabotage::Sabotage::None, ..*options };
        let first = UbiDevice::open(chip.clone(), &layout, &open_options(&healthy))?;
        first.flush()?;
        drop(first);
        let ubi = UbiDevice::open(chip.clone(), &layout, &open_options(options))?;
        let erases = |peb: Peb| chip.erase_count(peb);
        let ecs = ubi.erase_counters();
        let start: Vec<_> = (0..).zip(ecs).map(|(peb, ec)| (ec, erases(Peb::new(peb)))).collect();
        let first = start.clone();
        let random = SplitMix64::new(seed ^ shape_salt(shape));
        let model = Model::default();
        let options = options.clone();
        let past = Counts::new();
        Ok(Self { chip, options, ubi, model, layout, random, operations: 0, start, first, past })
    }

    /// What happened in the background so far.
    pub(crate) fn background(&self) -> Counts {
        let counters = self.ubi.health().counters;
        let now = [
            ("LEBs moved", counters.moves),
            ("scrub requests", counters.scrubs),
            ("blocks tortured", counters.tortures),
            ("blocks gone bad", counters.marked_bad),
            ("write errors", counters.write_errors),
            ("fastmaps written", counters.fastmaps),
            ("blocks erased", counters.erasures),
        ];
        let mut counts = self.past.clone();
        for (what, count) in now {
            *counts.entry(what).or_default() += count;
        }
        counts
    }

    /// Does the next operation.
    pub(crate) fn next(&mut self) -> Step {
        let op = self.choose();
        self.operations += 1;
        let before = Arc::new(self.model.clone());
        let erase_counters = Arc::new(self.ubi.erase_counters());
        let torn = self.torn(&op);
        self.imagine(&op);
        let kind = kind_of(&op);
        let broken = self.break_something(&op);
        self.chip.set_recording(true);
        let result = self.apply(&op);
        let events = self.chip.take_recording();
        self.chip.set_recording(false);
        self.chip.set_plan(FaultPlan::new(0));
        if broken {
            // The chip counts failed erases, UBI does not.
            self.start = self.baseline();
        }
        let updating = if let Op::Update { volume, .. } = op { Some(volume) } else { None };
        let shrinking =
            if let Op::Resize { volume, lebs } = op { Some((volume, lebs)) } else { None };
        let allowed = Arc::new(Allowed {
            operation: format!("operation {}: {}", self.operations, describe(&op)),
            before,
            after: Arc::new(self.model.clone()),
            torn,
            updating,
            shrinking,
            erase_counters,
        });
        let problem = match result {
            Err(error) => Some(("operation-failed", error.to_string())),
            Ok(Some(problem)) => Some(("leb-content", problem)),
            Ok(None) => self.check(),
        };
        Step { allowed, kind, events, problem }
    }

    /// What must hold after every operation that was not interrupted.
    fn check(&self) -> Option<(&'static str, String)> {
        if let Err(message) = self.ubi.check_invariants() {
            return Some(("invariants", message));
        }
        if let Err(error) = self.ubi.verify_flash() {
            return Some(("flash-differs", error.to_string()));
        }
        let counters = self.ubi.erase_counters();
        let begun = self.start.iter().zip(&self.first);
        for ((number, ec), (start, first)) in (0..).zip(counters).zip(begun) {
            let erases = self.chip.erase_count(Peb::new(number));
            let since = |(ec, before): &(u32, u32)| ec + erases - before;
            let expected = since(start);
            // After attaching by fastmap a counter may be known too low until the next erase, and
            // may have been so when the workload was last told to begin anew.
            let in_doubt = self.options.shape.uses_fastmap() && ec <= since(first);
            // Nobody can read the counter of a bad block.
            let in_doubt = in_doubt || self.chip.is_bad(Peb::new(number)).unwrap_or(true);
            if ec != expected && !in_doubt {
                let message = format!("erase counter of peb {number}: {ec}, expected {expected}");
                return Some(("erase-counter", message));
            }
        }
        None
    }

    fn choose(&mut self) -> Op {
        match self.operations {
            0 => return Op::Create { id: 0, is_static: false, lebs: 10 },
            1 => return Op::Create { id: 1, is_static: true, lebs: 3 },
            _ => {}
        }
        loop {
            let number = self.random.below(100);
            if let Some(op) = self.propose(number) {
                return op;
            }
        }
    }

    fn propose(&mut self, number: u64) -> Option<Op> {
        let volume = self.pick_volume();
        match number {
            0..56 => self.propose_leb(number, volume?),
            56..60 => self.propose_read(volume?),
            60..72 => Some(Op::Step),
            72..76 => Some(Op::Flush),
            76..81 => Some(Op::Scrub { peb: self.below(self.options.shape.pebs()) }),
            81 => Some(Op::Reattach { detach: self.below(2) == 0 }),
            82..86 => self.propose_new(),
            86..88 => (self.model.volumes.len() > 2).then_some(Op::Remove { volume: volume? }),
            88..92 => self.propose_size(volume?),
            92..94 => self.propose_name(volume?, false),
            94..95 => self.propose_name(volume?, true),
            _ => Some(self.propose_update(volume?)),
        }
    }

    fn propose_leb(&mut self, number: u64, volume: u32) -> Option<Op> {
        let model = &self.model.volumes[&volume];
        if model.is_static {
            return None;
        }
        let leb = u32::try_from(model.lebs.len()).ok()?;
        let leb = self.below(leb);
        let content = self.model.volumes[&volume].lebs[leb as usize].content.len();
        let left = self.layout.leb_size() as usize - content;
        match number {
            0..22 => {
                let data = self.data(left);
                (!data.is_empty()).then_some(Op::Append { volume, leb, data })
            }
            22..40 => {
                let data = self.data(self.layout.leb_size() as usize);
                Some(Op::Change { volume, leb, data })
            }
            40..44 => Some(Op::Map { volume, leb }),
            44..52 => Some(Op::Unmap { volume, leb }),
            _ => Some(Op::Erase { volume, leb }),
        }
    }

    fn propose_read(&mut self, volume: u32) -> Option<Op> {
        let lebs = u32::try_from(self.model.volumes[&volume].lebs.len()).ok()?;
        Some(Op::Read { volume, leb: self.below(lebs) })
    }

    fn propose_new(&mut self) -> Option<Op> {
        let id = (0..5).find(|id| !self.model.volumes.contains_key(id))?;
        let (is_static, lebs) = (self.below(4) == 0, 1 + self.below(5));
        (lebs <= self.ubi.available_lebs()).then_some(Op::Create { id, is_static, lebs })
    }

    fn propose_size(&mut self, volume: u32) -> Option<Op> {
        let model = &self.model.volumes[&volume];
        let used = model.used.div_ceil(u64::from(self.layout.leb_size()));
        let least = u32::try_from(used.max(1)).ok()?;
        let model_lebs = u32::try_from(model.lebs.len()).ok()?;
        let lebs = 1 + self.below(12);
        let most = model_lebs + self.ubi.available_lebs();
        (lebs >= least && lebs <= most).then_some(Op::Resize { volume, lebs })
    }

    fn propose_name(&mut self, volume: u32, replace: bool) -> Option<Op> {
        let other = self.pick_volume()?;
        if other == volume || (replace && self.model.volumes.len() < 4) {
            return None;
        }
        Some(if replace { Op::Replace { volume, other } } else { Op::Swap { volume, other } })
    }

    fn propose_update(&mut self, volume: u32) -> Op {
        let lebs = self.model.volumes[&volume].lebs.len();
        let mut data = self.data(lebs.min(3) * self.layout.leb_size() as usize);
        let odd = self.below(40) as usize;
        data.truncate(data.len().saturating_sub(odd));
        if let Some(last) = data.last_mut() {
            *last &= 0x7F;
        }
        Op::Update { volume, data }
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.random.below(bound.into())).expect("below a 32-bit number")
    }

    fn pick_volume(&mut self) -> Option<u32> {
        let index = self.random.next_u64();
        let ids: Vec<u32> = self.model.volumes.keys().copied().collect();
        let index = usize::try_from(index % (ids.len() as u64).max(1)).ok()?;
        ids.get(index).copied()
    }

    /// Up to `room` bytes that occur nowhere else, in whole units; most often few.
    fn data(&mut self, room: usize) -> Vec<u8> {
        let unit = (self.layout.min_io() as usize).max(64);
        let most = if self.below(8) == 0 { 24 } else { 3 };
        let units = (1 + self.below(most) as usize).min(room / unit);
        let mut bytes = Vec::with_capacity(units * unit);
        while bytes.len() < units * unit {
            bytes.extend(self.random.next_u64().to_le_bytes());
        }
        if let Some(last) = bytes.last_mut() {
            *last &= 0x7F;
        }
        bytes
    }

    /// What an interruption of the operation may leave half written.
    fn torn(&self, op: &Op) -> Option<Torn> {
        match op {
            Op::Append { volume, leb, data } => {
                let base = self.model.volumes[volume].lebs[*leb as usize].content.clone();
                Some(Torn { volume: *volume, leb: *leb, base, data: data.clone() })
            }
            // A change of a LEB that is not mapped is not atomic (spec: ubi 20.4).
            Op::Change { volume, leb, data } if !self.is_mapped(*volume, *leb) => {
                let base = Content::default();
                Some(Torn { volume: *volume, leb: *leb, base, data: data.clone() })
            }
            _ => None,
        }
    }

    fn is_mapped(&self, volume: u32, leb: u32) -> bool {
        let volume = self.ubi.volume(VolumeId::new(volume));
        volume.is_ok_and(|volume| volume.is_mapped(Leb::new(leb)).unwrap_or(false))
    }

    /// Does the operation in the model.
    fn imagine(&mut self, op: &Op) {
        let model = &mut self.model;
        let name = |stamp: u64| format!("volume-{stamp}");
        match op {
            Op::Append { volume, leb, data } => {
                let leb = &mut volume_mut(model, *volume).lebs[*leb as usize];
                let content = leb.content.iter().chain(data).copied().collect();
                leb.set(content);
            }
            Op::Change { volume, leb, data } => {
                volume_mut(model, *volume).lebs[*leb as usize].set(data.clone());
            }
            Op::Map { volume, leb } => {
                volume_mut(model, *volume).lebs[*leb as usize].ghosts.clear();
            }
            Op::Unmap { volume, leb } => volume_mut(model, *volume).lebs[*leb as usize].unmap(),
            Op::Erase { volume, leb } => {
                volume_mut(model, *volume).lebs[*leb as usize].set(Vec::new());
            }
            Op::Flush | Op::Reattach { .. } => {
                let lebs = model.volumes.values_mut().flat_map(|volume| &mut volume.lebs);
                lebs.for_each(|leb| leb.ghosts.clear());
            }
            Op::Read { .. } | Op::Scrub { .. } | Op::Step => {}
            Op::Create { id, is_static, lebs } => {
                let lebs = vec![LebModel::default(); *lebs as usize];
                let name = name(self.operations);
                let volume = VolumeModel { name, is_static: *is_static, lebs, used: 0 };
                model.volumes.insert(*id, volume);
            }
            Op::Remove { volume } => {
                model.volumes.remove(volume);
            }
            Op::Resize { volume, lebs } => {
                volume_mut(model, *volume).lebs.resize(*lebs as usize, LebModel::default());
            }
            Op::Swap { volume, other } => {
                let name = volume_mut(model, *other).name.clone();
                let name = std::mem::replace(&mut volume_mut(model, *volume).name, name);
                volume_mut(model, *other).name = name;
            }
            Op::Replace { volume, other } => {
                if let Some(gone) = model.volumes.remove(other) {
                    volume_mut(model, *volume).name = gone.name;
                }
            }
            Op::Update { volume, data } => self.imagine_update(*volume, data),
        }
    }

    fn imagine_update(&mut self, volume: u32, data: &[u8]) {
        let (leb_size, unit) = (self.layout.leb_size() as usize, self.layout.min_io() as usize);
        let volume = volume_mut(&mut self.model, volume);
        volume.used = if volume.is_static { data.len() as u64 } else { 0 };
        let mut parts = data.chunks(leb_size);
        for leb in &mut volume.lebs {
            let mut part = parts.next().unwrap_or_default().to_vec();
            let fill = if volume.is_static { 0 } else { 0xFF };
            part.resize(part.len().next_multiple_of(unit), fill);
            leb.set(part);
        }
    }

    /// Does the operation on the device; what was wrong with the result, if anything.
    fn apply(&mut self, op: &Op) -> Result<Option<String>, UbiError> {
        match op {
            Op::Reattach { detach } => self.reattach(*detach).map(|()| None),
            Op::Read { volume, leb } => self.compare(*volume, *leb),
            _ => self.apply_to_lebs(op).map(|()| None),
        }
    }

    /// Reads a LEB; bits that had to be corrected make UBI scrub it.
    fn compare(&self, volume: u32, leb: u32) -> Result<Option<String>, UbiError> {
        let device = self.ubi.volume(VolumeId::new(volume))?;
        let expected = &self.model.volumes[&volume].lebs[leb as usize].content;
        let mut found = vec![0; expected.len()];
        let outcome = device.read(Leb::new(leb), 0, &mut found)?;
        let same = found == **expected && !outcome.uncorrectable;
        Ok((!same).then(|| format!("volume {volume} LEB {leb} is not what was written")))
    }

    fn apply_to_lebs(&self, op: &Op) -> Result<(), UbiError> {
        let open = |id: &u32| self.ubi.volume(VolumeId::new(*id));
        match op {
            Op::Append { volume, leb, data } => {
                let end = self.model.volumes[volume].lebs[*leb as usize].content.len();
                let offset = u32::try_from(end - data.len()).expect("within a LEB");
                Ok(open(volume)?.write(Leb::new(*leb), offset, data)?)
            }
            Op::Change { volume, leb, data } => Ok(open(volume)?.change(Leb::new(*leb), data)?),
            Op::Map { volume, leb } => Ok(open(volume)?.map(Leb::new(*leb))?),
            Op::Unmap { volume, leb } => Ok(open(volume)?.unmap(Leb::new(*leb))?),
            Op::Erase { volume, leb } => open(volume)?.erase(Leb::new(*leb)),
            Op::Scrub { peb } => {
                self.ubi.request_scrub(Peb::new(*peb));
                Ok(())
            }
            Op::Step => self.ubi.background_step().map(|_| ()),
            Op::Flush => self.ubi.flush(),
            _ => self.apply_to_volumes(op),
        }
    }

    fn reattach(&mut self, detach: bool) -> Result<(), UbiError> {
        self.ubi.flush()?;
        if detach {
            self.ubi.detach()?;
        }
        self.past = self.background();
        let options = open_options(&self.options);
        self.ubi = UbiDevice::open(self.chip.clone(), &self.layout, &options)?;
        Ok(())
    }

    /// Now and then a program fails once, or leaves bits that will have to be corrected, or an
    /// erase fails so often that the block is given up. Whether anything may fail now.
    fn break_something(&mut self, op: &Op) -> bool {
        let (dice, first) = (self.below(24), self.below(6));
        let geometry = self.chip.geometry();
        if self.operations < 4 || !geometry.can_have_bad_blocks() {
            return false;
        }
        let bad = geometry.pebs().filter(|peb| self.chip.is_bad(*peb).unwrap_or(true)).count();
        let next = self.chip.next_event();
        let plan = FaultPlan::new(1);
        let at = next + u64::from(first);
        let plan = match dice {
            0 => plan.with(at, Fault::Fail),
            1..4 => plan.with(at, Fault::Flips { bits: self.chip.config().ecc_bits() }),
            4..7 if bad < MOST_BAD && matches!(op, Op::Step) => {
                (next..next + ERASE_TRIES).fold(plan, |plan, event| plan.with(event, Fault::Fail))
            }
            _ => return false,
        };
        self.chip.set_plan(plan);
        !matches!(dice, 1..4)
    }

    fn baseline(&self) -> Vec<(u32, u32)> {
        let erases = |peb: u32| self.chip.erase_count(Peb::new(peb));
        (0..).zip(self.ubi.erase_counters()).map(|(peb, ec)| (ec, erases(peb))).collect()
    }

    fn apply_to_volumes(&self, op: &Op) -> Result<(), UbiError> {
        let name = |id: &u32| {
            let name = self.model.volumes[id].name.as_str();
            VolumeName::new(name).expect("a short name")
        };
        match op {
            Op::Create { id, is_static, lebs } => {
                let kind = if *is_static { VolumeKind::Static } else { VolumeKind::Dynamic };
                let new = NewVolume {
                    id: Some(VolumeId::new(*id)),
                    name: name(id),
                    kind,
                    lebs: *lebs,
                    alignment: 1,
                    flags: VolumeFlags::default(),
                };
                self.ubi.create_volume(&new).map(|_| ())
            }
            Op::Remove { volume } => self.ubi.remove_volume(VolumeId::new(*volume)),
            Op::Resize { volume, lebs } => self.ubi.resize_volume(VolumeId::new(*volume), *lebs),
            Op::Swap { volume, other } => self.ubi.rename_volumes(&[
                (VolumeId::new(*volume), name(volume)),
                (VolumeId::new(*other), name(other)),
            ]),
            Op::Replace { volume, .. } => {
                self.ubi.rename_volumes(&[(VolumeId::new(*volume), name(volume))])
            }
            Op::Update { volume, data } => {
                let len = data.len() as u64;
                self.ubi.update_volume(VolumeId::new(*volume), len, &mut &data[..])
            }
            _ => Ok(()),
        }
    }
}

fn volume_mut(model: &mut Model, id: u32) -> &mut VolumeModel {
    model.volumes.get_mut(&id).expect("an operation is chosen among the volumes there are")
}

fn shape_salt(shape: Shape) -> u64 {
    let index = Shape::ALL.iter().position(|one| *one == shape).unwrap_or(0);
    (index as u64) << 56
}

fn kind_of(op: &Op) -> &'static str {
    match op {
        Op::Append { .. } => "write",
        Op::Change { .. } => "change",
        Op::Map { .. } => "map",
        Op::Unmap { .. } => "unmap",
        Op::Erase { .. } => "erase",
        Op::Read { .. } => "read",
        Op::Scrub { .. } => "scrub",
        Op::Step => "background step",
        Op::Flush => "flush",
        Op::Create { .. } => "create",
        Op::Remove { .. } => "remove",
        Op::Resize { .. } => "resize",
        Op::Swap { .. } => "swap names",
        Op::Replace { .. } => "rename over",
        Op::Update { .. } => "update",
        Op::Reattach { .. } => "attach",
    }
}

fn describe(op: &Op) -> String {
    match op {
        Op::Append { volume, leb, data } => {
            format!("append {} bytes to volume {volume} LEB {leb}", data.len())
        }
        Op::Change { volume, leb, data } => {
            format!("change volume {volume} LEB {leb} to {} bytes", data.len())
        }
        Op::Update { volume, data } => format!("update volume {volume} to {} bytes", data.len()),
        other => format!("{other:?}"),
    }
}

/// The LEB as it is on flash, piece by piece as the chip programs it; nothing at all of one that
/// is not mapped. The memory of `scratch` is used again.
pub(crate) fn read_leb(
    volume: &Volume,
    leb: u32,
    data_offset: u32,
    piece: u32,
    scratch: Vec<u8>,
) -> Result<super::model::Found, eraseblock_mtd::MtdError> {
    let size = volume.leb_size() as usize;
    let mut found = super::model::Found { bytes: scratch, used: 0, pieces: Vec::new() };
    found.bytes.clear();
    if !volume.is_mapped(Leb::new(leb))? {
        return Ok(found);
    }
    found.bytes.resize(size, 0xFF);
    let outcome = volume.read(Leb::new(leb), 0, &mut found.bytes)?;
    if !outcome.uncorrectable && piece > 1 && data_offset.is_multiple_of(piece) {
        let ends = (piece as usize..=size).step_by(piece as usize);
        found.pieces = ends.map(|end| (end, true)).collect();
        return Ok(found.measure());
    }
    let mut start = 0;
    while start < size {
        let inside = (data_offset as usize + start) % piece as usize;
        let end = (start + piece as usize - inside).min(size);
        let offset = u32::try_from(start).expect("within a LEB");
        let outcome = volume.read(Leb::new(leb), offset, &mut found.bytes[start..end])?;
        found.pieces.push((end, !outcome.uncorrectable));
        start = end;
    }
    Ok(found.measure())
}
