//! Examples of every command line: shown by `--help` and in the manual pages.

/// A command line, and what it is for.
pub(crate) type Example = (&'static str, &'static str);

/// The examples of a command, by its words without `eraseblock`, or by the name of a classic tool.
pub(crate) fn of(command: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(name, _)| *name == command).map_or(&[], |(_, examples)| examples)
}

/// All examples.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "info",
        &[
            ("eraseblock info board.ubi", "What is in this image?"),
            ("eraseblock info dump.bin --json | jq '.volumes[].name'", "The same for a program"),
        ],
    ),
    (
        "scan",
        &[(
            "eraseblock scan *.ubi | jq -r 'select(.status==\"refused\").image'",
            "Images that cannot be opened",
        )],
    ),
    ("ls", &[("eraseblock ls -l board.ubi:rootfs /etc", "A directory of the volume `rootfs`")]),
    ("tree", &[("eraseblock tree board.ubi:rootfs --depth 2", "Two levels of directories")]),
    ("stat", &[("eraseblock stat board.ubi:rootfs /bin/true", "All attributes of a file")]),
    (
        "cat",
        &[
            ("eraseblock cat board.ubi:rootfs /etc/motd", "A file"),
            ("eraseblock cat board.ubi:env > env.bin", "The raw content of a volume"),
        ],
    ),
    (
        "extract",
        &[
            ("eraseblock extract board.ubi out", "All volumes into a folder"),
            ("eraseblock extract board.ubi:rootfs etc-only /etc", "One directory of one volume"),
            (
                "eraseblock extract board.ubi:rootfs --tar - | zstd > rootfs.tar.zst",
                "An archive with owners and devices, without root",
            ),
            (
                "eraseblock extract dump.bin:rootfs saved --keep-damaged",
                "Everything that can be read, with zeros for the rest",
            ),
        ],
    ),
    (
        "mount",
        &[
            ("eraseblock mount board.ubi:rootfs mnt", "Look into an image"),
            (
                "eraseblock mount board.ubi:rootfs mnt --rw --size 128MiB",
                "Change it, as on a flash of 128 MiB",
            ),
            ("eraseblock mount mnt --stats", "What the mount has written"),
        ],
    ),
    ("umount", &[("eraseblock umount mnt", "End the mount and wait for the image")]),
    (
        "serve nfs",
        &[("eraseblock serve nfs board.ubi:rootfs --listen 127.0.0.1:11111", "Until Ctrl-C")],
    ),
    (
        "mkfs ubifs",
        &[
            (
                "eraseblock mkfs ubifs rootfs -o root.ubifs --flash W29N01HV --compressor zstd",
                "For the whole of a chip of the part database",
            ),
            (
                "eraseblock mkfs ubifs rootfs.tar.xz -o root.ubifs --leb 126976 --min-io 2048 --max-lebs 400",
                "From an archive, with the sizes of the volume",
            ),
            (
                "eraseblock mkfs ubifs rootfs -o root.ubifs --flash W29N01HV --preflight",
                "How large will it be?",
            ),
        ],
    ),
    (
        "mkfs jffs2",
        &[
            ("eraseblock mkfs jffs2 rootfs -o root.jffs2 --peb 64KiB --pad", "For NOR flash"),
            (
                "eraseblock mkfs jffs2 rootfs -o root.jffs2 --peb 128KiB --page 2048 --summary",
                "For NAND flash, to be mounted quickly",
            ),
        ],
    ),
    (
        "mkfs yaffs2",
        &[
            ("eraseblock mkfs yaffs2 rootfs -o root.yaffs2", "For U-Boot's `nand write.yaffs`"),
            (
                "eraseblock mkfs yaffs2 rootfs -o dump.bin --flash W29N01HV --tags-at 2 --data-ecc",
                "As a dump of the chip has it, ECC included",
            ),
        ],
    ),
    (
        "mkfs axfs",
        &[
            ("eraseblock mkfs axfs rootfs -o root.axfs", "Everything compressed"),
            (
                "eraseblock mkfs axfs rootfs -o root.axfs --xip bin/busybox --xip lib/libc.so",
                "Two files executed from where they are on the flash",
            ),
        ],
    ),
    (
        "build",
        &[
            ("eraseblock build board.toml -o board.ubi", "An image as the layout file says"),
            ("eraseblock build board.toml -o board.ubi --preflight", "Does everything fit?"),
        ],
    ),
    (
        "put",
        &[
            ("eraseblock put board.ubi:rootfs motd /etc/motd --size 128MiB", "A file"),
            ("eraseblock put board.jffs2 overlay /", "What is in a folder"),
        ],
    ),
    (
        "get",
        &[
            ("eraseblock get board.ubi:rootfs /etc/motd motd", "A file"),
            ("eraseblock get board.ubi:rootfs /etc etc --force", "A directory, over an old copy"),
        ],
    ),
    (
        "edit",
        &[
            (
                "eraseblock edit board.ubi:rootfs -c 'rm -rf /var/log' -c 'chmod u+x /bin/tool'",
                "Two changes",
            ),
            ("eraseblock edit board.jffs2 < changes.txt", "A script, one command on a line"),
        ],
    ),
    ("check", &[("eraseblock check board.ubi:rootfs", "Is it consistent?")]),
    (
        "repair",
        &[
            ("eraseblock repair board.ubi:rootfs", "What would be done, and what would be lost?"),
            (
                "eraseblock repair board.ubi:rootfs -o fixed.ubi --level drop --quarantine removed",
                "Repair a copy; keep the bytes of what is removed",
            ),
            (
                "eraseblock repair board.ubi:rootfs --in-place --undo board.undo",
                "Repair the file itself, so that it can be taken back",
            ),
        ],
    ),
    (
        "undo",
        &[(
            "eraseblock undo board.undo board.ubi",
            "The file as it was before its repair, or before `debug -w`",
        )],
    ),
    (
        "diff",
        &[
            ("eraseblock diff before.ubi:rootfs after.ubi:rootfs", "Files that differ, and how"),
            ("eraseblock diff before.ubi after.ubi --by nodes", "Structures that differ"),
            ("eraseblock diff before.ubi after.ubi --by blocks", "LEBs and erase counters"),
        ],
    ),
    (
        "debug",
        &[
            ("eraseblock debug board.ubi -c census", "How much is live, superseded, torn, free"),
            (
                "eraseblock debug board.ubi -c 'find key 1/ino' -c 'p @7.4096'",
                "A node, by key and by place",
            ),
            (
                "eraseblock debug board.ubi -c 'set ino 66.nlink=3' -o damaged.ubi",
                "A field of a copy, with the checksums over it",
            ),
            (
                "eraseblock debug board.ubi -w --undo board.undo -c 'erase peb 7'",
                "The image itself, after an undo file",
            ),
        ],
    ),
    (
        "disasm",
        &[
            ("eraseblock disasm board.ubi | less", "Every structure, one line each"),
            ("eraseblock disasm board.ubi -o board.ebt", "To be changed and assembled again"),
        ],
    ),
    ("asm", &[("eraseblock asm board.ebt -o changed.ubi", "The image that the text describes")]),
    ("chip parts", &[("eraseblock chip parts winbond", "The parts of one vendor")]),
    (
        "card new",
        &[
            (
                "eraseblock card new sd.card --preset sd-2012-c10",
                "A card of 16 GiB in a sparse file",
            ),
            (
                "eraseblock card new sd.card --preset sd-sandisk-2014 --size 1GiB --open 4",
                "A smaller one that keeps four units open",
            ),
        ],
    ),
    ("card stats", &[("eraseblock card stats sd.card", "Its parameters, commands, wear and time")]),
    (
        "card serve",
        &[
            (
                "eraseblock card serve sd.card --nbd sd.sock --pace 1",
                "At the speed of the card, until Ctrl-C",
            ),
            (
                "eraseblock card serve sd.card --nbd sd.sock --log sd.csv",
                "As fast as possible, with a line for each request",
            ),
        ],
    ),
    (
        "history",
        &[
            ("eraseblock history board.ubi:rootfs", "The commits that are left"),
            ("eraseblock history board.ubi:rootfs --path /etc/shadow", "All versions of a file"),
            ("eraseblock history board.ubi:rootfs --deleted --under /home", "Deleted names"),
        ],
    ),
    (
        "recover",
        &[
            (
                "eraseblock recover board.ubi:rootfs found",
                "The surest version of each deleted file",
            ),
            (
                "eraseblock recover board.ubi:rootfs versions --all-versions --class proven",
                "All states of files that a commit proves",
            ),
        ],
    ),
    (
        "explore",
        &[
            ("eraseblock explore board.ubi", "In the browser of this machine"),
            (
                "eraseblock explore board.ubi --no-open --port 8000",
                "For `ssh -L 8000:127.0.0.1:8000`, which reaches it from elsewhere",
            ),
            ("eraseblock explore board.ubi --export report.html", "As one file, to be passed on"),
        ],
    ),
    (
        "timeline",
        &[
            ("eraseblock timeline board.ubi:rootfs | mactime -b -", "For the Sleuth Kit"),
            (
                "eraseblock timeline board.ubi:rootfs --as dfxml --hash md5,sha256",
                "As XML, with the place of each byte",
            ),
            ("eraseblock timeline board.ubi:rootfs --as csv", "As a table"),
        ],
    ),
    (
        "nand detect",
        &[
            ("eraseblock nand detect chip.dump", "Page size, code and bit errors"),
            (
                "eraseblock nand detect chip.dump --deep -o recipe.toml",
                "Also unknown codes and scramblers; the result as a file",
            ),
        ],
    ),
    (
        "nand decode",
        &[
            ("eraseblock nand decode chip.dump -o chip.img", "With the recipe that is detected"),
            (
                "eraseblock nand decode chip.dump --also again.dump -o chip.img",
                "Two reads of the same chip: what one has lost comes from the other",
            ),
            (
                "eraseblock nand decode chip.dump -o chip.img --recipe qcom-bch4 --map codewords.csv",
                "With a known one, and a list of what was corrected where",
            ),
        ],
    ),
    (
        "nand encode",
        &[(
            "eraseblock nand encode board.ubi -o chip.dump --recipe linux-bch8",
            "What a programmer would have to write",
        )],
    ),
    (
        "nand recipes",
        &[
            ("eraseblock nand recipes", "The built-in ones"),
            ("eraseblock nand recipes linux-bch8 > mine.toml", "One of them, to be changed"),
        ],
    ),
    (
        "chip new",
        &[
            ("eraseblock chip new board.chip --part W25N01GV", "A part of the database"),
            (
                "eraseblock chip new small.chip --size 8MiB --peb 16KiB --page 512 --bad 3,77",
                "Any other, with two bad blocks",
            ),
        ],
    ),
    (
        "chip export",
        &[("eraseblock chip export board.chip board.bin --oob", "As a programmer reads it")],
    ),
    ("chip import", &[("eraseblock chip import board.chip dump.bin", "As a programmer writes it")]),
    ("chip stats", &[("eraseblock chip stats board.chip", "Operations and wear so far")]),
    (
        "chip cut",
        &[(
            "eraseblock chip cut board.chip --after 100 --program P2half",
            "Cut the power at the 101st write",
        )],
    ),
    (
        "chip age",
        &[(
            "eraseblock chip age board.chip --leak 20 --pass 1000000",
            "Bits leak, and time passes",
        )],
    ),
    ("ubi format", &[("eraseblock ubi format board.chip", "Empty UBI, erase counters kept")]),
    ("ubi mkvol", &[("eraseblock ubi mkvol board.chip rootfs --size 40MiB", "A dynamic volume")]),
    ("ubi rmvol", &[("eraseblock ubi rmvol board.chip old older", "Two volumes")]),
    ("ubi rsvol", &[("eraseblock ubi rsvol board.chip rootfs --all", "All that is free")]),
    ("ubi rename", &[("eraseblock ubi rename board.chip a b b a", "Two volumes swap their names")]),
    ("ubi update", &[("eraseblock ubi update board.chip:rootfs root.ubifs", "New content")]),
    ("ubi wear", &[("eraseblock ubi wear board.chip", "Erase counters as a histogram")]),
    (
        "lab powercut",
        &[
            (
                "eraseblock lab powercut --target ubifs --budget 1m",
                "A minute of power cuts, judged",
            ),
            ("eraseblock lab powercut --target ubi --chip mini --states 5000", "On one chip"),
            (
                "eraseblock lab powercut --target ubi --part W25N01GV --html cuts.html",
                "On a part of the database, with a page of the counts",
            ),
            (
                "eraseblock lab powercut --target ubifs --sequences pair --shard 0/40 --out rows",
                "A fortieth of all pairs of operations: one of forty machines",
            ),
        ],
    ),
    ("lab replay", &[("eraseblock lab replay ubi/mini/1@57.P3", "One state again")]),
    (
        "lab shrink",
        &[("eraseblock lab shrink ubi/mini/full-3@5812.P3", "The smallest state with this fault")],
    ),
    ("lab figures", &[("eraseblock lab figures --target fs", "UBIFS and JFFS2 side by side")]),
    (
        "lab forecast",
        &[
            (
                "eraseblock lab forecast --part W25N01GV --workload log --per-day 20MiB",
                "20 MiB of logs a day",
            ),
            (
                "eraseblock lab forecast --fs jffs2 --fill 80 --endurance 10000",
                "Another file system",
            ),
            (
                "eraseblock lab forecast --recording board.ops",
                "What was recorded at a mount, as fast as it was done",
            ),
        ],
    ),
    (
        "lab replay-ops",
        &[
            (
                "eraseblock lab replay-ops app.ops --fs jffs2 --part W25N01GV",
                "What a recorded mount would cost on another file system and part",
            ),
            (
                "eraseblock lab replay-ops trace.txt --root /var/lib/app",
                "What strace -f -ttt -yy -e trace=%file,%desc saw in a folder",
            ),
            (
                "eraseblock lab replay-ops job.log --on board.ubi:data",
                "A recording of fio, in an image",
            ),
            (
                "eraseblock lab replay-ops app.ops --in /mnt",
                "The same in a file system of the kernel that is mounted there, and empty",
            ),
        ],
    ),
    (
        "lab convert-ops",
        &[(
            "eraseblock lab convert-ops app.ops -o app.iolog --to fio3 --under /mnt/data",
            "For fio --read_iolog=app.iolog on a mounted file system",
        )],
    ),
    (
        "personalities",
        &[
            ("eraseblock personalities --dir classic", "Links named mkfs.ubifs, ubinize, ..."),
            ("eraseblock personalities --dir readers --readers", "Links for unblob, binwalk, ..."),
        ],
    ),
    (
        "completions",
        &[("eraseblock completions bash > /etc/bash_completion.d/eraseblock", "For all users")],
    ),
    ("man", &[("eraseblock man man1 && man -l man1/eraseblock.1", "Write the pages, read one")]),
    (
        "mkfs.ubifs",
        &[(
            "mkfs.ubifs -r rootfs -m 2048 -e 126976 -c 400 -x zstd -o root.ubifs",
            "A bare image; `ubinize` puts it into a volume",
        )],
    ),
    (
        "ubinize",
        &[("ubinize -p 128KiB -m 2048 -o board.ubi board.ini", "The volumes of the ini file")],
    ),
    (
        "mkfs.jffs2",
        &[("mkfs.jffs2 -r rootfs -e 128KiB -l -n --pad -o root.jffs2", "Little-endian, padded")],
    ),
    (
        "fsck.ubifs",
        &[
            ("fsck.ubifs -n board.ubi:rootfs", "Is it consistent?"),
            ("fsck.ubifs -a board.ubi:rootfs", "Repair what can be repaired without a loss"),
        ],
    ),
    (
        "fsck.jffs2",
        &[
            ("fsck.jffs2 -n root.jffs2", "Is it consistent?"),
            ("fsck.jffs2 -y root.jffs2", "Repair it; what cannot be right is removed"),
        ],
    ),
    ("jefferson", &[("jefferson -d out firmware.bin", "The files of each JFFS2")]),
    (
        "ubireader_extract_files",
        &[("ubireader_extract_files -k -o out dump.bin", "With the owners of the image")],
    ),
    (
        "ubireader_extract_images",
        &[("ubireader_extract_images -o out dump.bin", "A file for each volume")],
    ),
    ("sumtool", &[("sumtool -i root.jffs2 -o root.sum.jffs2 -e 128KiB -p", "With summaries")]),
];
