//! Raw dumps of NAND: detected, decoded and encoded.

use crate::sample::Sample;
use std::fs;

/// A sample with an image, and with dumps of it.
fn sample(recipe: &str) -> Sample {
    let sample = Sample::new();
    sample.ubi();
    sample.ok(&["nand", "encode", "all.ubi", "-o", "dump", "--recipe", recipe, "-q"]);
    sample
}

#[test]
fn a_dump_is_detected_and_decoded() {
    let sample = sample("gpmi:2048+64");
    let report = sample.ok(&["nand", "detect", "dump", "-o", "found.toml", "--json"]).out;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["confidence"], "certain");
    let best = &report["recipes"][0];
    assert_eq!((&best["name"], &best["page"]), (&"gpmi:2048+64".into(), &2048.into()));
    assert_eq!(
        best["recipe"].as_str().unwrap(),
        fs::read_to_string(sample.path("found.toml")).unwrap()
    );
    let image = fs::read(sample.path("all.ubi")).unwrap();
    for recipe in [&[][..], &["--recipe", "found.toml"], &["--recipe", "gpmi"]] {
        let mut arguments = vec!["nand", "decode", "dump", "-o", "image", "--json"];
        arguments.extend(recipe);
        let report: serde_json::Value = serde_json::from_str(&sample.ok(&arguments).out).unwrap();
        assert_eq!((&report["uncorrectable"], &report["corrected_bits"]), (&0.into(), &0.into()));
        assert!(fs::read(sample.path("image")).unwrap() == image, "{recipe:?}");
    }
    let run = sample.run(&["nand", "detect", "dump", "--id", "2CDA909506"]);
    assert!(run.code == 0 && run.out.contains("gpmi:2048+64: certain"), "{}{}", run.out, run.err);
}

#[test]
fn lost_codewords_are_findings_and_zeros() {
    let sample = sample("linux-bch4");
    let mut dump = fs::read(sample.path("dump")).unwrap();
    dump[100..140].fill(0x5A);
    dump[2112 + 600] ^= 1;
    fs::write(sample.path("dump"), &dump).unwrap();
    let run = sample.run(&[
        "nand",
        "decode",
        "dump",
        "-o",
        "image",
        "--recipe",
        "linux-bch4",
        "--map",
        "map",
    ]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(
        run.err.contains("block 0, page 0, codeword 0") && run.err.contains("zeros delivered"),
        "{}",
        run.err
    );
    assert!(fs::read(sample.path("image")).unwrap()[..512].iter().all(|byte| *byte == 0));
    let map = fs::read_to_string(sample.path("map")).unwrap();
    for line in [
        "block,page,codeword,outcome,bits",
        "0,0,0,uncorrectable,0",
        "0,1,1,corrected,1",
        "0,0,1,clean,0",
    ] {
        assert!(map.lines().any(|found| found == line), "{line}");
    }
    let kept = ["nand", "decode", "dump", "-o", "kept", "--recipe", "linux-bch4", "--keep-damaged"];
    let run = sample.run(&kept);
    assert!(run.code == 1 && run.err.contains("its bytes as read delivered"), "{}", run.err);
    assert_eq!(fs::read(sample.path("kept")).unwrap()[100..140], [0x5A; 40]);
}

#[test]
fn several_dumps_of_a_chip_make_one_image() {
    let sample = sample("linux-bch4");
    let dump = fs::read(sample.path("dump")).unwrap();
    // In each dump another half of the first codeword is wrong, and one bit elsewhere.
    for (name, at) in [("one", 0), ("two", 10), ("three", 20)] {
        let mut read = dump.clone();
        (at..at + 10).for_each(|at| read[at] ^= 4);
        read[2112 + at] ^= 1;
        fs::write(sample.path(name), read).unwrap();
    }
    let image = fs::read(sample.path("all.ubi")).unwrap();
    let decode = ["nand", "decode", "one", "-o", "image"];
    let alone = sample.run(&[&decode[..], &["--also", "two"]].concat());
    assert!(alone.code == 1 && alone.err.contains("1 codeword lost"), "{}", alone.err);
    assert!(alone.err.contains("2 dumps differ in 22 bits"), "{}", alone.err);
    let all = [&decode[..], &["--also", "two", "--also", "three", "--json"]].concat();
    let report: serde_json::Value = serde_json::from_str(&sample.ok(&all).out).unwrap();
    assert_eq!((&report["uncorrectable"], &report["corrected_bits"]), (&0.into(), &1.into()));
    assert_eq!((&report["dumps"], &report["differing_bits"]), (&3.into(), &33.into()));
    assert!(fs::read(sample.path("image")).unwrap() == image);
    // A dump that says nothing, and one that is surer.
    fs::write(sample.path("blank"), vec![0x55; dump.len()]).unwrap();
    let run = sample.run(&["nand", "detect", "blank"]);
    assert!(run.out.contains("no recipe with a code explains it"), "{}", run.out);
    let run = sample.run(&["nand", "detect", "blank", "--also", "dump"]);
    assert!(run.out.contains("linux-bch4:2048+64: certain"), "{}", run.out);
    fs::write(sample.path("short"), &dump[2112..]).unwrap();
    for command in [&decode[..], &["nand", "detect", "one"]] {
        let run = sample.run(&[command, &["--also", "short"]].concat());
        assert!(run.code == 3 && run.err.contains("short: "), "{}", run.err);
        assert!(run.err.contains("as in one"), "{}", run.err);
    }
}

#[test]
fn nothing_is_guessed() {
    let sample = sample("linux-bch4");
    let run = sample.run(&["nand", "decode", "all.ubi", "-o", "image"]);
    assert!(run.code == 3 && run.err.contains("no built-in recipe explains it"), "{}", run.err);
    assert!(run.err.contains("--deep") && !sample.path("image").exists());
    // Three pages have too few codewords to be certain.
    let dump = fs::read(sample.path("dump")).unwrap();
    let few: Vec<u8> =
        dump.chunks(2112 * 64).take(3).flat_map(|block| &block[..2112]).copied().collect();
    fs::write(sample.path("few"), few).unwrap();
    let run = sample.run(&["nand", "decode", "few", "-o", "image"]);
    assert!(run.code == 3 && run.err.contains("no "), "{}", run.err);
    let run = sample.run(&["nand", "detect", "all.ubi", "-o", "found.toml"]);
    assert!(run.code == 3 && run.err.contains("no recipe was found"), "{}", run.err);
    fs::write(sample.path("broken.toml"), "[recipe]\npage = 5\n").unwrap();
    for (recipe, code, expected) in [
        ("linux-bch5", 2, "neither a built-in recipe nor a file"),
        ("broken.toml", 3, "not a recipe"),
        ("qcom-bch8", 3, "expected a multiple of 2176"),
    ] {
        let run = sample.run(&["nand", "decode", "few", "-o", "image", "--recipe", recipe]);
        assert!(
            run.code == code && run.err.contains(expected),
            "{recipe}: {} {}",
            run.code,
            run.err
        );
    }
    let run = sample.run(&["nand", "detect", "few", "--id", "0102030405"]);
    assert!(run.code == 2 && run.err.contains("no part of the database"), "{}", run.err);
    let run = sample.run(&["nand", "decode", "dump", "-o", "dump"]);
    assert!(run.code == 2 || run.code == 3, "an input is no output: {}", run.err);
    assert!(fs::read(sample.path("dump")).unwrap() == dump);
}

#[test]
fn recipes_are_listed_and_printed() {
    let sample = Sample::new();
    let listed = sample.ok(&["nand", "recipes"]).out;
    assert!(listed.contains("qcom-bch4") && listed.contains("Broadcom"), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&sample.ok(&["nand", "recipes", "--json"]).out).unwrap();
    let families = json["families"].as_array().unwrap();
    assert!(families.len() > 20 && families.iter().all(|family| family["recipes"][0].is_string()));
    fs::write(sample.path("own.toml"), sample.ok(&["nand", "recipes", "hisi-balong"]).out).unwrap();
    fs::write(sample.path("image"), vec![7; 8192]).unwrap();
    for recipe in ["own.toml", "hisi-balong"] {
        sample.ok(&[
            "nand",
            "encode",
            "image",
            "-o",
            recipe.trim_end_matches(".toml"),
            "--recipe",
            recipe,
        ]);
    }
    let read = |name: &str| fs::read(sample.path(name)).unwrap();
    assert!(read("own") == read("hisi-balong") && read("own").len() == 4 * 2112);
}
