"""Cuts the runs of recovered files out of the image, decompresses them with zlib, lzop and zstd, and compares what
they give with the files and with the digests of the list; nothing of ours is used.

provenance.py IMAGE FOLDER
"""

import hashlib
import json
import os
import struct
import subprocess
import sys
import zlib


def piped(command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def lzo(stored, size):
    """Decompresses a stream of LZO1X as the only block of a file of lzop, without checksums of the content."""
    assert len(stored) < size, (len(stored), size)
    head = struct.pack(">HHHBBIIIIB", 0x1030, 0x20A0, 0x0940, 1, 5, 0, 0o100644, 0, 0, 0)
    head += struct.pack(">I", zlib.adler32(head))
    block = struct.pack(">II", size, len(stored)) + stored + bytes(4)
    return piped(["lzop", "-dc"], b"\x89LZO\0\r\n\x1a\n" + head + block)


def content(line, image, is_jffs2, codecs):
    """Puts a file together; what no run covers is zeros."""
    parts = bytearray(line["size"])
    for run in line["runs"]:
        assert run["len"] is not None, run
        stored = image[run["img_offset"] : run["img_offset"] + run["len"]]
        # The node that the number belongs to begins with a head of this length.
        head = 68 if is_jffs2 else 48
        node = image[run["img_offset"] - head : run["img_offset"]]
        magic, at, size = (b"\x85\x19", 16, 4) if is_jffs2 else (b"\x31\x18\x10\x06", 8, 8)
        assert node.startswith(magic), node.hex()
        assert int.from_bytes(node[at : at + size], "little") == run["sqnum"], run
        if run["codec"] == "zlib":
            stored = zlib.decompress(stored, 15 if is_jffs2 else -15)
        elif run["codec"] == "lzo":
            stored = lzo(stored, run["size"])
        elif run["codec"] == "zstd":
            stored = piped(["zstd", "-dc"], stored)
        else:
            assert run["codec"] == "none", run
        codecs.add(run["codec"])
        assert len(stored) == run["size"], run
        own = stored[run["skip"] : run["skip"] + run["file_len"]]
        parts[run["offset"] : run["offset"] + len(own)] = own
    return bytes(parts)


def main(image, folder):
    image = open(image, "rb").read()
    listed = open(os.path.join(folder, "manifest.jsonl"), "rb").read()
    report = json.load(open(os.path.join(folder, "report.json")))
    source = report["source"]
    is_jffs2 = report["geometry"]["file_system"] == "jffs2"
    own = hashlib.sha256(image).hexdigest()
    assert source["sha256_before"] == source["sha256_after"] == own, source
    assert source["size"] == len(image), source
    assert report["manifest_sha256"] == hashlib.sha256(listed).hexdigest()
    files = runs = 0
    codecs = set()
    for line in map(json.loads, listed.splitlines()):
        if line["file"] is None:
            continue
        recovered = open(os.path.join(folder, line["file"]), "rb").read()
        assert content(line, image, is_jffs2, codecs) == recovered, line
        assert hashlib.md5(recovered).hexdigest() == line["md5"], line
        assert hashlib.sha256(recovered).hexdigest() == line["sha256"], line
        files += 1
        runs += len(line["runs"])
    assert files == report["files"], report
    names = set(os.listdir(folder)) - {"manifest.jsonl", "report.json"}
    assert len(names) == files, names
    print(json.dumps({"files": files, "runs": runs, "codecs": sorted(codecs)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
