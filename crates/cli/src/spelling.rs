//! How the command names what the library calls settings: options, or runs of its own.

use eraseblock::error::Setting;

/// Returns the option of a setting, with its value if there is one.
pub(crate) fn of(setting: Setting, value: Option<&str>) -> String {
    let option = match setting {
        Setting::Extract => "`eraseblock extract TARGET DIR`".to_owned(),
        Setting::FlashSize | Setting::VolumeSize => "--size".to_owned(),
        Setting::ImportDump => "`eraseblock chip import CHIP DUMP --oob`".to_owned(),
        Setting::MakeFlash => "`eraseblock ubi format --block-device`".to_owned(),
        other => format!("--{}", other.name().replace('_', "-")),
    };
    match value {
        Some(value) => format!("{option} {value}"),
        None => option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_options() {
        assert_eq!(of(Setting::Peb, Some("SIZE")), "--peb SIZE");
        assert_eq!(of(Setting::VidOffset, None), "--vid-offset");
        assert_eq!(of(Setting::FlashSize, Some("4MiB")), "--size 4MiB");
        assert_eq!(of(Setting::ForceRw, None), "--force-rw");
    }
}
