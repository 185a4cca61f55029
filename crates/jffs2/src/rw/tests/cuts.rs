//! Cuts the power at every event, in every way. The next mount must show a state that the workload
//! went through since it last requested durability.

use super::*;
use eraseblock_base::random::SplitMix64;
use eraseblock_nandsim::{Recorded, Variant};
use eraseblock_vfs::{Background, Caller, FsErrorKind, SetAttr, XattrMode};
use eraseblock_vfs_testkit::same_tree;

/// Few blocks, so that garbage collection runs often.
pub(super) fn mini(kind: MediumKind) -> Arc<Chip> {
    let (page, oob) = if kind == MediumKind::Nand { (512, 16) } else { (1, 0) };
    let geometry = Geometry::new(kind, 4 << 10, 16, page, page, oob).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

/// A workload whose operations write one node each, or two with a state between them that the model
/// can express.
struct Workload {
    rng: SplitMix64,
    fs: Jffs2Rw,
    /// States that a cut may leave, the current one last.
    allowed: Vec<ModelFs>,
    buffered: bool,
}

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

impl Workload {
    fn present(&self) -> &ModelFs {
        self.allowed.last().unwrap()
    }

    fn push(&mut self, change: impl FnOnce(&ModelFs)) {
        let next = self.present().clone();
        change(&next);
        self.allowed.push(next);
    }

    /// Records that everything written is durable; on NOR this is so after every operation.
    fn settle(&mut self) {
        self.allowed.drain(..self.allowed.len() - 1);
    }

    fn step(&mut self) -> Result<(), FsErrorKind> {
        if !self.buffered {
            self.settle();
        }
        let name = NAMES[self.rng.index(NAMES.len())];
        let found = self.fs.lookup(1, name);
        let model = self.present().lookup(1, name);
        assert_eq!(found.is_ok(), model.is_ok());
        let time = at(100);
        let (Ok(ino), Ok(twin)) = (found, model) else {
            self.push(|model| assert!(model.create(1, name, &FILE, &Caller::owner(time)).is_ok()));
            return self
                .fs
                .create(1, name, &FILE, &Caller::owner(time))
                .map(drop)
                .map_err(|error| error.kind());
        };
        let draw = self.rng.below(20);
        let done = match draw {
            0..10 => {
                let size = self.fs.attr(ino).unwrap().size;
                let offset = if draw < 6 { size } else { self.rng.below(size + 1) };
                let most = 128.min(4096 - offset % 4096);
                let mut data = vec![0; 1 + self.rng.below(most) as usize];
                data.fill_with(|| self.rng.next_u64() as u8);
                self.push(|model| model.write(twin, offset, &data, &Caller::owner(time)).unwrap());
                self.fs.write(ino, offset, &data, &Caller::owner(time))
            }
            10..12 => {
                let size = Some(self.rng.below(self.fs.attr(ino).unwrap().size + 200));
                let change = SetAttr { size, ..SetAttr::default() };
                self.push(|model| model.set_attr(twin, &change, &Caller::owner(time)).unwrap());
                self.fs.set_attr(ino, &change, &Caller::owner(time))
            }
            12..14 => {
                self.push(|model| model.unlink(1, name, &Caller::owner(time)).unwrap());
                self.fs.unlink(1, name, &Caller::owner(time))
            }
            14..16 => {
                let to = NAMES[self.rng.index(NAMES.len())];
                if to != name && self.present().lookup(1, to).ok() != Some(twin) {
                    self.push(|model| {
                        let _ = model.unlink(1, to, &Caller::owner(time));
                        model.link(twin, 1, to, &Caller::owner(time)).unwrap();
                    });
                    self.push(|model| model.unlink(1, name, &Caller::owner(time)).unwrap());
                }
                self.fs.rename((1, name), (1, to), RenameMode::Replace, &Caller::owner(time))
            }
            16 => {
                let value = vec![self.rng.next_u64() as u8; 10];
                self.push(|model| {
                    model
                        .set_xattr(twin, b"user.a", &value, XattrMode::Either, &Caller::owner(time))
                        .unwrap();
                });
                self.fs.set_xattr(ino, b"user.a", &value, XattrMode::Either, &Caller::owner(time))
            }
            17 if self.fs.xattr(ino, b"user.a").is_ok() => {
                self.push(|model| {
                    model.remove_xattr(twin, b"user.a", &Caller::owner(time)).unwrap();
                });
                self.fs.remove_xattr(ino, b"user.a", &Caller::owner(time))
            }
            18 => self.fs.background_step().map(drop),
            _ => self.fs.sync(),
        };
        done.map_err(|error| error.kind())
    }
}

/// Runs all background work. A full medium may have no space for it until files are deleted.
fn settle(fs: &Jffs2Rw) -> Result<(), String> {
    let all = || loop {
        match fs.background_step() {
            Ok(Background::More) => {}
            done => return done.map(drop),
        }
    };
    match all() {
        Err(error) if error.kind() == FsErrorKind::NoSpace => {
            for name in NAMES.into_iter().chain([&b"after"[..]]) {
                match fs.unlink(1, name, &by(10)).map_err(|error| error.kind()) {
                    Ok(()) | Err(FsErrorKind::NotFound) => {}
                    Err(kind) => return Err(format!("full, and deleting: {kind:?}")),
                }
            }
            all().map_err(|error| format!("in the background after deleting: {error}"))?;
            let room = fs.create(1, b"room", &FILE, &by(11)).map(drop);
            room.map_err(|error| format!("everything deleted, and still full: {error}"))
        }
        done => done.map_err(|error| format!("in the background: {error}")),
    }
}

/// Returns why a state is wrong, if it is.
fn judge(
    event: &Recorded,
    variant: Variant,
    options: &RwOptions,
    allowed: &[ModelFs],
) -> Result<(), String> {
    let chip = Arc::new(event.cut(variant, 7).map_err(|error| error.to_string())?);
    chip.power_on();
    let (fs, _) = Jffs2Rw::mount(chip.clone(), options).map_err(|error| error.to_string())?;
    let checked = fs.check();
    // A block that looks erased may fail once more before it is given up.
    if variant.is_unstable() && !matches!(variant, Variant::P5 { .. } | Variant::E4) {
        return Ok(());
    }
    checked.map_err(|error| format!("check: {error}"))?;
    let differs = |model: &ModelFs| same_tree(&fs, model, &CompareOptions::BASIC);
    if !allowed.iter().any(|model| differs(model).is_empty()) {
        let found = differs(allowed.last().unwrap());
        let lines: Vec<String> = found.iter().take(3).map(ToString::to_string).collect();
        return Err(format!("none of {} states: {}", allowed.len(), lines.join("; ")));
    }
    // It continues to work, and the next mount shows the same.
    let done =
        fs.create(1, b"after", &FILE, &by(9)).and_then(|ino| fs.write(ino, 0, b"alive", &by(9)));
    match done {
        Ok(()) => {}
        Err(error) if error.kind() == FsErrorKind::NoSpace => {}
        Err(error) => return Err(format!("not alive: {error}")),
    }
    settle(&fs)?;
    fs.unmount().map_err(|error| format!("unmount: {error}"))?;
    let (again, _) =
        Jffs2Rw::mount(chip, options).map_err(|error| format!("mounted again: {error}"))?;
    again.check().map_err(|error| format!("second check: {error}"))?;
    let found = same_tree(&again, &fs, &CompareOptions::BASIC);
    if found.is_empty() { Ok(()) } else { Err(format!("second mount: {}", found[0])) }
}

/// Returns the number of states judged, and the first violation.
fn campaign(
    kind: MediumKind,
    options: &RwOptions,
    steps: u64,
    stride: usize,
) -> (u64, Option<String>) {
    let chip = mini(kind);
    let (fs, _) = Jffs2Rw::mount(chip.clone(), options).unwrap();
    let model = ModelFs::new(ModelRules::JFFS2, at(0));
    let rng = SplitMix64::new(options.seed + 1);
    let buffered = kind == MediumKind::Nand;
    let mut work = Workload { rng, fs, allowed: vec![model], buffered };
    let (mut states, mut number) = (0, 0);
    chip.set_recording(true);
    for step in 0..steps {
        let before = work.allowed.len();
        let done = work.step();
        if let Err(kind) = done {
            if kind != FsErrorKind::NoSpace {
                return (states, Some(format!("step {step}: {kind:?}")));
            }
            // Its remains are one of the allowed states; free space.
            let found = work
                .allowed
                .iter()
                .rposition(|model| same_tree(&work.fs, model, &CompareOptions::BASIC).is_empty());
            let Some(found) = found.filter(|found| *found + 1 >= before) else {
                return (states, Some(format!("step {step}: a refused operation did something")));
            };
            work.allowed.truncate(found + 1);
            for name in NAMES {
                if work.present().lookup(1, name).is_ok() {
                    work.push(|model| model.unlink(1, name, &by(1)).unwrap());
                    work.fs.unlink(1, name, &by(1)).unwrap();
                }
            }
        }
        for event in chip.take_recording() {
            for variant in event.variants().into_iter().filter(|variant| variant.is_in_model()) {
                number += 1;
                if number % stride != 0 {
                    continue;
                }
                states += 1;
                if let Err(message) = judge(&event, variant, options, &work.allowed) {
                    let number = event.event.number;
                    return (
                        states,
                        Some(format!("step {step}, event {number}, {variant}: {message}")),
                    );
                }
            }
        }
        if done.is_ok() && step % 7 == 0 {
            work.fs.sync().unwrap();
            chip.take_recording();
            work.settle();
        }
    }
    (states, None)
}

#[test]
fn a_cut_at_any_moment_leaves_a_state_that_was() {
    for kind in [MediumKind::Nor, MediumKind::Nand] {
        for (seed, summary) in [(1, true), (2, false)] {
            let options = RwOptions { summary, seed, ..RwOptions::default() };
            let (states, violation) = campaign(kind, &options, 500, 4);
            assert_eq!(violation, None, "{kind:?}, seed {seed}");
            assert!(states > 250, "{states}");
        }
    }
}

/// A hole with data in it stays a hole after its nodes were moved.
#[test]
fn a_hole_in_parts_is_one_when_its_nodes_have_moved() {
    let (fs, _) = Jffs2Rw::mount(nor(), &RwOptions::default()).unwrap();
    let file = fs.create(1, b"file", &FILE, &by(1)).unwrap();
    fs.set_attr(file, &SetAttr { size: Some(4000), ..SetAttr::default() }, &by(1)).unwrap();
    let mut expected = vec![0; 4000];
    for start in [300, 1200, 2100, 3000] {
        fs.write(file, start as u64, &[7; 100], &by(1)).unwrap();
        expected[start..start + 100].fill(7);
    }
    let other = fs.create(1, b"other", &FILE, &by(1)).unwrap();
    let mut rng = SplitMix64::new(1);
    let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
    for round in 0..600 {
        fs.write(other, round % 4 * 4096, &noise, &by(2)).unwrap();
    }
    assert!(content(&fs, "file") == expected);
}
