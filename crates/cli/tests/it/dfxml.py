"""Follows DFXML to the bytes of an image, with nothing of ours: each file object that has digests is put
together from its byte runs and must have them. Elements must come in the order of another file.

dfxml.py IMAGE DFXML ORDER
"""

import hashlib
import json
import sys
import xml.etree.ElementTree as ElementTree
import zlib

DFXML = "{http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML}"
OWN = "{urn:eraseblock:dfxml}"


def pairs(tree):
    """Returns which element comes before which in the file objects of a tree."""
    found = set()
    for item in tree.iter(DFXML + "fileobject"):
        names = [child.tag for child in item]
        found |= {(one, two) for at, one in enumerate(names) for two in names[at + 1 :]}
    return found


def content(item, image):
    """Puts a content together."""
    size = int(item.find(DFXML + "filesize").text)
    parts, covered = bytearray(size), 0
    for run in item.iter(DFXML + "byte_run"):
        offset, length = int(run.get("file_offset")), int(run.get("len"))
        assert offset == covered, f"a gap before {offset}"
        if run.get("fill") == "0":
            covered += length
            continue
        at = int(run.get("img_offset"))
        stored = image[at : at + length]
        if run.get(OWN + "codec") is None:
            bytes_ = stored
        else:
            assert run.get(OWN + "codec") == "zlib", run.attrib
            bytes_ = zlib.decompress(stored, -15)[: int(run.get("uncompressed_len"))]
            assert len(bytes_) == int(run.get("uncompressed_len")), run.attrib
        parts[offset : offset + len(bytes_)] = bytes_
        covered += len(bytes_)
    assert covered == size == len(parts), f"{covered} of {size} bytes"
    return bytes(parts)


def main(image, dfxml, order):
    image = open(image, "rb").read()
    tree, other = ElementTree.parse(dfxml), ElementTree.parse(order)
    theirs = pairs(other)
    known = {name for pair in theirs for name in pair}
    for one, two in pairs(tree):
        if two.startswith(OWN):
            continue
        assert {one, two} <= known, f"{one} or {two} is no element of DFXML"
        is_same = one == two or (one, two) in theirs or (two, one) not in theirs
        assert is_same, f"{one} before {two}"
    items = list(tree.iter(DFXML + "fileobject"))
    rebuilt = 0
    for item in items:
        sums = {it.get("type"): it.text for it in item.iter(DFXML + "hashdigest")}
        if not sums:
            continue
        bytes_ = content(item, image)
        expected = {kind: hashlib.new(kind, bytes_).hexdigest() for kind in ("md5", "sha256")}
        assert sums == expected, (item.find(DFXML + "filename").text, sums, expected)
        rebuilt += 1
    print(json.dumps({
        "objects": len(items),
        "rebuilt": rebuilt,
        "links": [it.text for it in tree.iter(DFXML + "link_target")],
        "holes": sum(run.get("fill") == "0" for run in tree.iter(DFXML + "byte_run")),
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
