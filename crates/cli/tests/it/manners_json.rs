//! Every command has a document, also when it fails.

use crate::sample::Sample;
use serde_json::Value;
use std::fs;

fn document(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// `--json` printed nothing when a command failed.
#[test]
fn a_failure_is_a_document() {
    let sample = Sample::new();
    let image = sample.ubifs();
    fs::write(sample.path("noise"), [7; 5000]).unwrap();
    for (arguments, code, class, place) in [
        (&["info", "missing"][..], 3, "refused", None),
        (&["ls", image, "/nope"], 3, "refused", Some("/nope")),
        (&["info", "noise"], 3, "refused", Some("noise")),
        (&["cat", image, "/etc/hosts"], 2, "usage", None),
        (&["ls"], 2, "usage", None),
        (&["get", image, "/etc/hosts", "noise"], 3, "refused", None),
        (&["mkfs", "ubifs", "src", "-o", "x"], 2, "usage", None),
        (&["build", "missing.toml", "-o", "x"], 3, "host", Some("missing.toml")),
        (&["umount", "src"], 3, "refused", None),
    ] {
        let run = sample.run(&[arguments, &["--json"]].concat());
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        let document = document(&run.out);
        let error = &document["error"];
        assert!(document["findings"].is_array(), "{arguments:?}");
        assert_eq!(error["class"], class, "{arguments:?}: {error}");
        assert_eq!(error["place"].as_str(), place, "{arguments:?}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            !message.is_empty() && run.err.contains(message.lines().next().unwrap()),
            "{arguments:?}: {error} {}",
            run.err
        );
    }
    let hint = document(&sample.run(&["info", "noise", "--json"]).out)["error"]["hint"].clone();
    assert!(hint.as_str().unwrap().contains("--format"), "{hint}");
}

/// `edit`, `get` and `umount` took `--json` and printed none.
#[test]
fn changes_are_documents() {
    let sample = Sample::new();
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "64KiB", "--pad-to", "1MiB"]);
    let get = document(&sample.ok(&["get", "j", "/etc/hosts", "hosts", "--json"]).out);
    assert_eq!((&get["files"], &get["bytes"]), (&1.into(), &20.into()));
    let edit = ["edit", "j", "-c", "cat /etc/hosts", "-c", "rm /bin/alias", "--json"];
    let edit = document(&sample.ok(&edit).out);
    assert_eq!(edit["commands"][0]["output"], "127.0.0.1 localhost\n");
    assert_eq!(edit["commands"][1]["command"], "rm /bin/alias");
    assert!(edit["findings"].is_array());
    // The bytes of a file and a document cannot both go to standard output.
    let tar = sample.ok(&["extract", "j", "--tar", "-", "--json"]).out;
    assert!(tar.starts_with("./") && !tar.contains("\"volumes\""));
}
