//! The report for people: what it is in one line, a picture, the volumes, then the details.

use crate::map;
use crate::style::{Ink, Style, terminal_width};
use crate::table::{Align, Table};
use eraseblock::info::{
    BareUbifsFacts, Info, Jffs2Facts, ReadFacts, UbiInfo, UbifsFacts, UbifsState, YaffsFacts,
};
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::ubi::FastmapStatus;
use eraseblock::target::formats::FactValue;
use eraseblock::text;

/// All lines of a report.
pub(super) fn lines(report: &Info, style: Style) -> Vec<String> {
    let mut page = Page { style, label: 15, lines: Vec::new() };
    match report {
        Info::Ubi(report) => page.ubi(report),
        Info::Ubifs(report) => page.ubifs(report),
        Info::Jffs2(report) => page.jffs2(report),
        Info::Yaffs(report) => page.yaffs(report),
        Info::Read(report) => page.read(report),
        // A format that the library knows and this page does not yet.
        other => page.lines.push(format!("{other:?}")),
    }
    page.lines
}

/// Returns whether attaching uses a fastmap, and why not.
fn fastmap(status: &FastmapStatus) -> String {
    match status {
        FastmapStatus::Absent => "none: attaching scans all blocks".to_owned(),
        FastmapStatus::Unusable { reason } => {
            format!("not usable, attaching scans all blocks: {reason}")
        }
        FastmapStatus::Usable { anchor, blocks, pebs } => {
            let blocks = text::count(u64::from(*blocks), "block", "blocks");
            let pebs = text::grouped(u64::from(*pebs));
            format!("{blocks} from peb {anchor}, used to attach a flash of {pebs} eraseblocks")
        }
    }
}

struct Page {
    style: Style,
    /// Columns of the labels of fields.
    label: usize,
    lines: Vec<String>,
}

impl Page {
    fn title(&mut self, path: &str, what: &str) {
        self.lines.push(format!("{}: {what}", self.style.paint(Ink::Bold, path)));
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.style.paint(Ink::Bold, text));
    }

    fn field(&mut self, label: &str, value: impl AsRef<str>) {
        let label = self.style.paint(Ink::Faint, format!("{label:<0$}", self.label));
        self.lines.push(format!("  {label} {}", value.as_ref()));
    }

    fn ubi(&mut self, ubi: &UbiInfo) {
        let size = u64::from(ubi.peb_size) * u64::from(ubi.peb_count);
        let blocks = text::count(u64::from(ubi.peb_count), "eraseblock", "eraseblocks");
        let volumes = text::count(ubi.volumes.len() as u64, "volume", "volumes");
        let title = format!("UBI image, {}, {blocks}, {volumes}", format_size(size));
        self.title(&ubi.path, &title);
        if let Some(why) = &ubi.linux_refuses {
            let line = format!("  Linux would refuse to attach it: {why}");
            self.lines.push(self.style.paint(Ink::Red, line));
        }
        self.lines.push(String::new());
        let width = terminal_width().saturating_sub(4).min(128);
        let picture = map::draw(&ubi.map, width, self.style);
        self.lines.extend(picture.iter().map(|line| format!("  {line}")));
        self.volumes(ubi);
        self.geometry(ubi);
        self.health(ubi);
        for volume in &ubi.volumes {
            if let Some(facts) = &volume.ubifs {
                self.heading(&format!("volume {} ({}): UBIFS", volume.id, volume.name));
                self.facts(facts);
            }
        }
    }

    fn volumes(&mut self, ubi: &UbiInfo) {
        if ubi.volumes.is_empty() {
            return;
        }
        self.heading("volumes");
        let mut table = Table::new(&[
            ("", Align::Left),
            ("id", Align::Right),
            ("name", Align::Left),
            ("type", Align::Left),
            ("size", Align::Right),
            ("LEBs", Align::Right),
            ("mapped", Align::Right),
            ("", Align::Left),
            ("content", Align::Left),
        ]);
        for (place, volume) in ubi.volumes.iter().enumerate() {
            let letter = map::volume_letter(u8::try_from(place).unwrap_or(u8::MAX));
            let mut content = volume.content.clone();
            for flag in &volume.flags {
                content = format!("{content}, {flag}");
            }
            for (is_so, word) in
                [(volume.corrupted, "corrupted"), (volume.update_unfinished, "update unfinished")]
            {
                if is_so {
                    content = format!("{content}, {}", self.style.paint(Ink::Red, word));
                }
            }
            let (mapped, reserved) = (volume.mapped_lebs, volume.reserved_lebs);
            table.row(vec![
                letter.to_string(),
                volume.id.to_string(),
                volume.name.clone(),
                volume.kind.to_owned(),
                format_size(volume.size),
                reserved.to_string(),
                mapped.to_string(),
                map::bar(u64::from(mapped), u64::from(reserved), 10),
                content,
            ]);
        }
        self.lines.extend(table.lines(2, self.style));
    }

    fn geometry(&mut self, ubi: &UbiInfo) {
        self.heading("geometry");
        self.field("eraseblock", text::size(u64::from(ubi.peb_size)));
        self.field("logical", text::size(u64::from(ubi.leb_size)));
        let units = format!("{} bytes, headers in units of {}", ubi.min_io, ubi.header_unit);
        self.field("page", units);
        let offsets = format!("VID header at {}, data at {}", ubi.vid_hdr_offset, ubi.data_offset);
        self.field("offsets", offsets);
        self.field("file", text::size(ubi.file_size));
        if ubi.start > 0 {
            self.field("begins at", format!("byte {} of the file", text::grouped(ubi.start)));
        }
        let seq = ubi.image_seq;
        self.field("image number", format!("{seq:#010x} ({seq})"));
        self.field("last sequence", text::grouped(ubi.max_sqnum));
    }

    fn health(&mut self, ubi: &UbiInfo) {
        self.heading("health");
        let counters = &ubi.erase_counters;
        let known = match ubi.peb_count.saturating_sub(ubi.blocks.bad) {
            all if all == counters.known => String::new(),
            all => format!(" (known of {} of {all} blocks)", counters.known),
        };
        self.field(
            "erase counters",
            format!("min {}, mean {}, max {}{known}", counters.min, counters.mean, counters.max),
        );
        let blocks = &ubi.blocks;
        let mut counts = vec![format!("{} used", blocks.used), format!("{} free", blocks.free)];
        let others = [
            (blocks.erase, "to be erased"),
            (blocks.corrupted, "corrupted"),
            (blocks.bad, "bad"),
            (blocks.unreadable, "unreadable"),
            (blocks.fastmap, "fastmap"),
            (blocks.alien, "of unknown internal volumes"),
            (blocks.foreign, "of other images"),
        ];
        for (count, word) in others {
            if count > 0 {
                let text = format!("{count} {word}");
                let is_bad = matches!(word, "corrupted" | "bad" | "unreadable");
                counts.push(if is_bad { self.style.paint(Ink::Red, text) } else { text });
            }
        }
        self.field("blocks", counts.join(", "));
        self.field("fastmap", fastmap(&ubi.fastmap));
        if let Some(end) = &ubi.end_marks {
            let marks: Vec<String> = end.pebs.iter().map(ToString::to_string).collect();
            let hidden = match end.hidden.len() as u64 {
                0 => String::new(),
                some => format!(
                    "; {} after them count as erased",
                    text::count(some, "eraseblock", "eraseblocks")
                ),
            };
            self.field("end marks", format!("eraseblock {}{hidden}", marks.join(", ")));
        }
        if let Some(lebs) = ubi.available_lebs {
            self.field("for new volumes", text::count(u64::from(lebs), "LEB", "LEBs"));
        }
    }

    fn ubifs(&mut self, report: &BareUbifsFacts) {
        let lebs = report.file_size.div_ceil(u64::from(report.leb_size.max(1)));
        let lebs = text::count(lebs, "LEB", "LEBs");
        let size = format_size(report.file_size);
        self.title(&report.path, &format!("UBIFS image, {size}, {lebs}"));
        self.lines.push(String::new());
        self.field("file", text::size(report.file_size));
        match &report.facts {
            Some(facts) => self.facts(facts),
            None => self.field("superblock", self.style.paint(Ink::Red, "cannot be read")),
        }
    }

    fn jffs2(&mut self, report: &Jffs2Facts) {
        let size = format_size(report.file_size - report.start.min(report.file_size));
        let blocks = text::count(u64::from(report.peb_count), "eraseblock", "eraseblocks");
        let title = format!("JFFS2 image, {}-endian, {size}, {blocks}", report.byte_order);
        self.title(&report.path, &title);
        self.lines.push(String::new());
        self.field("file", text::size(report.file_size));
        if report.start > 0 {
            self.field("begins at", format!("byte {} of the file", text::grouped(report.start)));
        }
        self.field("eraseblock", text::size(u64::from(report.peb_size)));
        self.field(
            "cleanmarkers",
            match report.cleanmarker {
                0 => "none".to_owned(),
                len => format!("{len} bytes"),
            },
        );
        self.field("files", text::grouped(report.inodes));
        let list = |counts: &std::collections::BTreeMap<&'static str, u64>| {
            let mut counts: Vec<_> = counts.iter().filter(|row| *row.1 > 0).collect();
            counts.sort_by_key(|row| std::cmp::Reverse(row.1));
            let words =
                counts.iter().map(|(name, count)| format!("{} {name}", text::grouped(**count)));
            words.collect::<Vec<_>>().join(", ")
        };
        self.field("nodes", list(&report.nodes));
        if !report.compressors.is_empty() {
            self.field("data nodes", list(&report.compressors));
        }
        self.field("in nodes", text::size(report.node_bytes));
    }

    fn yaffs(&mut self, report: &YaffsFacts) {
        let size = format_size(report.file_size);
        let blocks = text::count(u64::from(report.peb_count), "eraseblock", "eraseblocks");
        let (version, order) = (report.version, report.byte_order);
        let title = format!("YAFFS{version} image, {order}-endian, {size}, {blocks}");
        self.title(&report.path, &title);
        self.lines.push(String::new());
        self.field("file", text::size(report.file_size));
        let (page, spare) = (report.page, report.spare);
        self.field("eraseblock", text::size(u64::from(report.peb_size)));
        self.field("page", format!("{page} bytes and {spare} spare bytes"));
        let ecc = if report.tags_ecc { "with ECC" } else { "without ECC" };
        self.field("tags", format!("{}, {ecc}", report.tags));
        self.field("data ECC", report.data_ecc);
        self.field("state from", report.state_from);
        self.field("objects", text::grouped(report.objects));
        self.field("in use", text::count(report.live_chunks, "chunk", "chunks"));
        let (free, bad) = (report.free_pebs, report.bad_pebs);
        self.field("eraseblocks", format!("{free} erased, {bad} bad"));
    }

    fn read(&mut self, report: &ReadFacts) {
        let (name, size) = (report.format.name(), format_size(report.file_size));
        self.title(&report.path, &format!("{name} image, {size}"));
        self.lines.push(String::new());
        let widest = report.facts.iter().map(|fact| fact.key.len()).max();
        self.label = self.label.max(widest.unwrap_or(0));
        self.field("file", text::size(report.file_size));
        for fact in &report.facts {
            let value = match &fact.value {
                FactValue::Bytes(bytes) => text::size(*bytes),
                FactValue::Number(number) => text::grouped(*number),
                FactValue::Text(words) => words.clone(),
                FactValue::Time(seconds) => text::time(*seconds),
                other => format!("{other:?}"),
            };
            self.field(&fact.key.replace('_', " "), value);
        }
    }

    fn facts(&mut self, facts: &UbifsFacts) {
        let (format, read_only) = (facts.format_version, facts.ro_compat_version);
        self.field("format", format!("{format} (read-only compatible with {read_only})"));
        self.field("uuid", &facts.uuid);
        self.field("compressor", facts.compressor);
        if !facts.flags.is_empty() {
            self.field("flags", facts.flags.join(", "));
        }
        let leb = text::size(u64::from(facts.leb_size));
        self.field("LEB", format!("{leb}, minimum I/O {}", facts.min_io));
        self.field("LEBs", format!("{}, may grow to {}", facts.lebs, facts.max_lebs));
        let (log, lpt, orphan) = (facts.log_lebs, facts.lpt_lebs, facts.orphan_lebs);
        self.field("areas", format!("log {log}, LPT {lpt}, orphans {orphan} LEBs"));
        self.field("journal", text::size(facts.journal_bytes));
        if facts.reserved_bytes > 0 {
            self.field("reserved", text::size(facts.reserved_bytes));
        }
        if let Some(state) = &facts.state {
            self.field("state", self.state(state));
            let used = state.bytes_total.saturating_sub(state.bytes_free);
            let bar = map::bar(used, state.bytes_total, 20);
            let (free, total) = (format_size(state.bytes_free), format_size(state.bytes_total));
            self.field("space", format!("{bar} {free} free of {total}"));
        }
    }

    /// Clean or not, and what was done about it.
    fn state(&self, state: &UbifsState) -> String {
        if state.rescued {
            return self.style.paint(Ink::Red, "no usable index: put together from all nodes");
        }
        if state.clean {
            return self.style.paint(Ink::Green, "clean");
        }
        let nodes = text::count(state.replayed_nodes, "node", "nodes");
        let bytes = format_size(state.replayed_bytes);
        let mut text = format!("not cleanly unmounted; journal replayed: {nodes}, {bytes}");
        if state.orphans > 0 {
            text = format!("{text}; {}", text::count(state.orphans, "orphan", "orphans"));
        }
        self.style.paint(Ink::Yellow, text)
    }
}
