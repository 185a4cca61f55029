//! Damage scripts: for each invariant of `check` an image that breaks it, which `check` has to name by
//! exactly its identifier.

use crate::sample::{Sample, noise};
use eraseblock::observe::Notes;
use eraseblock::raw::census::debug::Debugger;
use eraseblock::raw::census::script::Script;
use eraseblock::raw::mtd::ReadAt;
use eraseblock::target::{Place, Shape, check_place, structures};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The device of the images `journal` and `ubi`.
const FLASH: &str = "[flash]\npeb = \"16KiB\"\npage = 512\nblocks = 64\n\n[image]\nimage-seq = 7\n";
const ROOTFS: &str = "\n[[volume]]\nname = \"rootfs\"\nsize = \"600KiB\"\n\
                      content = { ubifs = \"tree\", compressor = \"lzo\" }\n";
const KERNEL: &str =
    "\n[[volume]]\nname = \"kernel\"\ntype = \"static\"\ncontent = { file = \"kernel\" }\n";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../damage")
}

/// Makes the files that images are made of.
fn sources(sample: &Sample) {
    let tree = |name: &str| sample.path(&format!("tree/{name}"));
    for dir in ["bin", "empty", "etc"] {
        fs::create_dir_all(tree(dir)).unwrap();
    }
    fs::write(tree("etc/motd"), "hello flash\n").unwrap();
    std::os::unix::fs::symlink("motd", tree("etc/issue")).unwrap();
    fs::write(tree("bin/tool"), noise(20_000)).unwrap();
    fs::hard_link(tree("bin/tool"), tree("bin/alias")).unwrap();
    let numbers = (1..=3000).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{number}");
        text
    });
    fs::write(tree("numbers"), &numbers).unwrap();
    fs::write(sample.path("kernel"), noise(40_000)).unwrap();
    for folder in ["twins", "full"] {
        fs::create_dir(sample.path(folder)).unwrap();
    }
    for (name, content) in [("3", "3\n"), ("one", "one\n"), ("two", "two\n")] {
        fs::write(sample.path(&format!("twins/file-{name}")), content).unwrap();
    }
    let inodes: Vec<u8> = (1000..2024_u64).flat_map(u64::to_le_bytes).collect();
    fs::write(sample.path("twins/inodes"), inodes).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(sample.path(&format!("full/{name}")), noise(40_000)).unwrap();
    }
    for name in ["more", "numbers"] {
        fs::write(sample.path(&format!("full/{name}")), &numbers).unwrap();
    }
    fs::write(sample.path("layout.toml"), [FLASH, ROOTFS].concat()).unwrap();
    fs::write(sample.path("device.toml"), [FLASH, KERNEL, ROOTFS].concat()).unwrap();
}

/// Makes the images that `damage/images` describes.
fn images(sample: &Sample) -> BTreeMap<String, Vec<u8>> {
    sources(sample);
    let text = fs::read_to_string(folder().join("images")).unwrap();
    let mut names = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, command) = line.split_once(": ").unwrap();
        names.insert(name.to_owned(), Vec::new());
        let command = command.replace('$', name);
        let script = format!("\"$0\" {command}");
        let run = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_eraseblock")])
            .current_dir(sample.path(""))
            .env("SOURCE_DATE_EPOCH", "1000000000")
            .output()
            .unwrap();
        // The power goes off in one of them.
        assert!(run.status.success() || command.contains("chip"), "{line}: {run:?}");
    }
    for (name, bytes) in &mut names {
        *bytes = fs::read(sample.path(name)).unwrap();
    }
    names
}

/// Runs `eraseblock repair`; returns its exit code.
fn repair(sample: &Sample, args: &[&str]) -> Result<i32, String> {
    let run = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
        .arg("repair")
        .args(args)
        .current_dir(sample.path(""))
        .output()
        .map_err(|error| error.to_string())?;
    let code = run.status.code().ok_or("repair was killed")?;
    if code > 1 {
        let text = String::from_utf8_lossy(&run.stderr);
        return Err(format!("repair ends with {code}: {}", text.trim()));
    }
    Ok(code)
}

/// Returns what is wrong with the repair of the damaged image: it needs exactly `level`, and then `check`
/// is silent and a second plan empty.
fn judge_repair(sample: &Sample, level: &str) -> Result<Vec<String>, String> {
    if level == "none" {
        return Ok(match repair(sample, &["damaged"]) {
            Ok(code) => vec![format!("a repair is possible: it ends with {code}")],
            Err(_) => Vec::new(),
        });
    }
    let args = ["damaged", "-q", "--level", level, "-o", "fixed", "--plan-out", "plan"];
    repair(sample, &args)?;
    let plan = fs::read_to_string(sample.path("plan")).map_err(|error| error.to_string())?;
    let needed = ["rebuild", "drop", "safe"]
        .into_iter()
        .find(|level| plan.contains(&format!("\"level\":\"{level}\"")));
    let mut wrong = Vec::new();
    if needed != Some(level) {
        wrong.push(format!("the plan needs level {needed:?}, expected {level}"));
    }
    let place =
        Place::parse(sample.path("fixed").as_os_str()).map_err(|error| error.to_string())?;
    let report = check_place(&place, &Shape::default(), &mut Notes::new(false))
        .map_err(|error| format!("check of the repaired image failed: {error}"))?;
    let left = Script::default().judge(report.findings());
    wrong.extend(left.into_iter().map(|text| format!("after the repair: {text}")));
    if repair(sample, &["fixed", "-q"])? != 0 {
        wrong.push("the second plan is not empty".to_owned());
    }
    Ok(wrong)
}

/// Returns what is wrong with the result of a script.
fn judge(sample: &Sample, script: &Script) -> Result<Vec<String>, String> {
    for name in ["damaged", "fixed", "plan"] {
        let _ = fs::remove_file(sample.path(name));
    }
    let image = script.image.clone().ok_or("no line `image`")?;
    let place = Place::parse(sample.path(&image).as_os_str()).map_err(|error| error.to_string())?;
    let cut = structures::cut(&place, &Shape::default(), &mut Notes::new(false));
    let cut = cut.map_err(|error| error.to_string())?;
    let mut debugger = Debugger::new(cut.image, cut.plan, 0).map_err(|error| error.to_string())?;
    let mut out = String::new();
    for (line, command) in &script.commands {
        debugger.run(command, &mut out).map_err(|refusal| format!("line {line}: {refusal:?}"))?;
    }
    let mut damaged = vec![0; usize::try_from(debugger.image().size().unwrap()).unwrap()];
    debugger.image().read_exact_at(&mut damaged, 0).map_err(|error| error.to_string())?;
    fs::write(sample.path("damaged"), damaged).unwrap();
    let place =
        Place::parse(sample.path("damaged").as_os_str()).map_err(|error| error.to_string())?;
    match check_place(&place, &Shape::default(), &mut Notes::new(false)) {
        Ok(report) => {
            let mut wrong = script.judge(report.findings());
            if let Some(level) = &script.repair {
                wrong.extend(judge_repair(sample, level)?);
            }
            Ok(wrong)
        }
        Err(error) => Err(format!("check failed: {error}")),
    }
}

/// Puts the sound, the damaged and the repaired image of a script into the folder `ERASEBLOCK_KEEP`, for
/// real Linux.
fn keep(sample: &Sample, name: &str, script: &Script) {
    let Some(folder) = std::env::var_os("ERASEBLOCK_KEEP").map(PathBuf::from) else { return };
    let whole = script.image.clone().unwrap_or_default();
    for (file, kind) in [(whole.as_str(), "whole"), ("damaged", "damaged"), ("fixed", "fixed")] {
        if sample.path(file).exists() {
            let place = folder.join(format!("{name}.{kind}"));
            fs::copy(sample.path(file), place).unwrap();
        }
    }
}

#[test]
fn every_damage_is_named_by_its_identifier() {
    let sample = Sample::new();
    for (name, bytes) in images(&sample) {
        assert!(!bytes.is_empty(), "{name}");
        let place = Place::parse(sample.path(&name).as_os_str()).unwrap();
        let report = check_place(&place, &Shape::default(), &mut Notes::new(false)).unwrap();
        let sound = Script::default().judge(report.findings());
        assert!(sound.is_empty(), "{name}: {sound:?}");
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "damage"));
    paths.sort();
    let (mut failures, mut repairs) = (String::new(), 0);
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy();
        let script = Script::parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(!script.expected.is_empty(), "{name}: expects nothing");
        repairs += usize::from(script.repair.is_some());
        let outcome = judge(&sample, &script);
        keep(&sample, &name, &script);
        match outcome {
            Ok(wrong) if wrong.is_empty() => {}
            Ok(wrong) => writeln!(failures, "{name}:\n  {}", wrong.join("\n  ")).unwrap(),
            Err(error) => writeln!(failures, "{name}: {error}").unwrap(),
        }
    }
    let failed = failures.lines().filter(|line| !line.starts_with(' ')).count();
    println!(
        "{} scripts, {} as expected; {repairs} repairs judged",
        paths.len(),
        paths.len() - failed
    );
    assert!(failures.is_empty(), "{failures}");
}
