//! Text that names settings. The library names its own setters; a program with other names for them,
//! as the options of a command, puts those in their places.

use std::fmt::{self, Display};
use std::ops::{Add, Range};

/// Something that a caller can set, and that an error or a next step names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Setting {
    /// Eraseblocks of the flash that an image file is made for.
    Blocks,
    /// An erase counter for all blocks.
    EraseCounter,
    /// Everything copied out of an image.
    Extract,
    /// A fastmap stays on the flash.
    Fastmap,
    /// The part of the database that a flash is.
    Flash,
    /// The size of the flash that an image is made for.
    FlashSize,
    /// What Linux would refuse is continued.
    Force,
    /// Writing although an unknown internal volume demands a read-only device.
    ForceRw,
    /// The format of the image.
    Format,
    /// A chip made of a raw dump.
    ImportDump,
    /// Damaged files are extracted, too.
    KeepDamaged,
    /// The size of a logical eraseblock.
    Leb,
    /// A flash made of a block device or a plain file.
    MakeFlash,
    /// LEBs to which a UBIFS can grow.
    MaxLebs,
    /// The size of a page.
    Page,
    /// The size of a physical eraseblock.
    Peb,
    /// The size of a volume.
    VolumeSize,
    /// Where the first eraseblock of a JFFS2 begins.
    Start,
    /// Where the tags of a YAFFS2 are in the spare bytes.
    TagsAt,
    /// Where the volume identifier header is in an eraseblock.
    VidOffset,
}

impl Setting {
    /// Returns the name of the setter, field or function of the library.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::EraseCounter => "erase_counter",
            Self::Extract => "FileSystem::extract_to",
            Self::Fastmap => "fastmap",
            Self::Flash => "flash",
            Self::FlashSize => "flash_size",
            Self::Force => "force",
            Self::ForceRw => "force_rw",
            Self::Format => "format",
            Self::ImportDump => "import",
            Self::KeepDamaged => "keep_damaged",
            Self::Leb => "leb",
            Self::MakeFlash => "Flash::make",
            Self::MaxLebs => "max_lebs",
            Self::Page => "page",
            Self::Peb => "peb",
            Self::VolumeSize => "VolumeSize",
            Self::Start => "start",
            Self::TagsAt => "tags_at",
            Self::VidOffset => "vid_offset",
        }
    }

    /// Returns words that name it with a value, or with a word in capitals that stands for one.
    pub fn to(self, value: impl Display) -> Words {
        Words::of(self, Some(value.to_string()))
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text in which some places name a [`Setting`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    text: String,
    named: Vec<Named>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Named {
    at: Range<usize>,
    setting: Setting,
    value: Option<String>,
}

impl Words {
    fn of(setting: Setting, value: Option<String>) -> Self {
        let text = match &value {
            Some(value) => format!("`{setting}({value})`"),
            None => format!("`{setting}`"),
        };
        let named = vec![Named { at: 0..text.len(), setting, value }];
        Self { text, named }
    }

    /// Returns the text, with the library's names.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the same with the names that `spell` has for settings and their values.
    #[must_use]
    pub fn spelled(&self, spell: impl Fn(Setting, Option<&str>) -> String) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let mut end = 0;
        for Named { at, setting, value } in &self.named {
            text.push_str(&self.text[end..at.start]);
            text.push_str(&spell(*setting, value.as_deref()));
            end = at.end;
        }
        text.push_str(&self.text[end..]);
        text.into()
    }
}

impl Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self { text, named: Vec::new() }
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Setting> for Words {
    fn from(setting: Setting) -> Self {
        Self::of(setting, None)
    }
}

impl<W: Into<Words>> Add<W> for Words {
    type Output = Words;

    fn add(mut self, more: W) -> Words {
        let Words { text, named } = more.into();
        let begin = self.text.len();
        self.text.push_str(&text);
        self.named.extend(named.into_iter().map(|named| {
            let at = begin + named.at.start..begin + named.at.end;
            Named { at, ..named }
        }));
        self
    }
}

impl<W: Into<Words>> Add<W> for Setting {
    type Output = Words;

    fn add(self, more: W) -> Words {
        Words::from(self) + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_as_the_caller_names_them() {
        let words = Words::from("x: ") + Setting::Peb.to("SIZE") + " and " + Setting::Page + ".";
        assert_eq!(words.as_str(), "x: `peb(SIZE)` and `page`.");
        let spelled = words.spelled(|setting, value| match value {
            Some(value) => format!("--{setting} {value}"),
            None => format!("--{setting}"),
        });
        assert_eq!(spelled, Words::from("x: --peb SIZE and --page."));
        assert_eq!(spelled.spelled(|_, _| String::new()), spelled);
    }
}
