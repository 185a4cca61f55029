//! A container image with nothing but the static program and licences, in the layout of the Open Container
//! Initiative (image-spec 1.0): blobs named by their hash, and an index.

use super::tree::Tree;
use super::{LICENCES, VERSION, sha256};
use crate::command::output;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs `program` into `dist` as `eraseblock-VERSION.oci.tar`.
pub(super) fn write(program: &Path, dist: &Path, epoch: &str) -> Result<()> {
    let created = output(
        Command::new("date")
            .args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"])
            .arg(format!("@{epoch}")),
    )?;
    let content = Tree::new("layer")?;
    content.copy(program, "eraseblock", 0o755)?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT", LICENCES] {
        content.copy(&dist.join(name), &format!("licences/{name}"), 0o644)?;
    }
    let image = Tree::new("oci")?;
    let archive = image.0.join("layer");
    content.tar(&archive, epoch, "")?;
    let unpacked = sha256(&fs::read(&archive)?);
    image.gzip("layer")?;
    let packed = archive.with_extension("gz");
    let layer = fs::read(&packed).and_then(|bytes| fs::remove_file(&packed).map(|()| bytes))?;
    let blobs = Blobs { image: &image };
    let layer = blobs.put(&layer, "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = json!({
        "created": created.trim(),
        "architecture": "amd64",
        "os": "linux",
        "config": { "Entrypoint": ["/eraseblock"], "WorkingDir": "/work" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{unpacked}")] },
    });
    let config =
        blobs.put(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest =
        blobs.put(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    image.write("index.json", index.to_string().as_bytes(), 0o644)?;
    image.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    image.tar(&dist.join(format!("eraseblock-{VERSION}.oci.tar")), epoch, "")
}

/// The blobs of an image.
struct Blobs<'a> {
    image: &'a Tree,
}

impl Blobs<'_> {
    /// Stores a blob, and returns its descriptor.
    fn put(&self, bytes: &[u8], media_type: &str) -> Result<Value> {
        let hash = sha256(bytes);
        let place = PathBuf::from("blobs/sha256").join(&hash);
        self.image.write(place.to_str().context("a name")?, bytes, 0o644)?;
        Ok(
            json!({ "mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len() }),
        )
    }
}
