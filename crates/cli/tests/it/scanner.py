"""Looks for structures with right checksums at every place of an image, with nothing of ours, and fails unless
each of them is in the census, where it is, and each whole structure of the census is among them.

scanner.py IMAGE CENSUS
"""

import json
import sys
import zlib
from collections import Counter

UBIFS = ["ino", "data", "dent", "xent", "trun", "pad", "sb", "mst", "ref", "idx", "cs", "orph", "auth", "sig"]
# Those whose checksums are checked here.
JFFS2 = {0xE001: "dirent", 0xE002: "inode", 0x2003: "cleanmarker"}


def crc(data, start=0xFFFFFFFF):
    # Flash formats leave out the last inversion of zlib; JFFS2 begins with 0, too.
    return zlib.crc32(data, start ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def places(image, magic, align):
    at = image.find(magic)
    while at >= 0:
        if at % align == 0:
            yield at
        at = image.find(magic, at + 1)


def ubifs(image):
    """Yields place, kind, length and sequence number of each node."""
    number = lambda at, size: int.from_bytes(image[at : at + size], "little")
    for at in places(image, b"\x31\x18\x10\x06", 8):
        length, kind = number(at + 16, 4), number(at + 20, 1)
        if 24 <= length <= len(image) - at and crc(image[at + 8 : at + length]) == number(at + 4, 4):
            yield at, "ubifs." + UBIFS[kind], length, number(at + 8, 8)


def jffs2(image, order):
    """Yields place, kind, length and version of each node."""
    number = lambda at, size: int.from_bytes(image[at : at + size], order)
    for at in places(image, (0x1985).to_bytes(2, order), 4):
        if at + 12 > len(image):
            continue
        # On NOR, the bit of an obsolete node is cleared.
        kind = number(at + 2, 2) | 0x2000
        length = number(at + 4, 4)
        head = image[at : at + 2] + kind.to_bytes(2, order) + image[at + 4 : at + 8]
        if kind not in JFFS2 or not 12 <= length <= len(image) - at:
            continue
        if crc(head, 0) != number(at + 8, 4):
            continue
        node, version, is_right = image[at : at + length], None, True
        if JFFS2[kind] == "inode":
            csize = number(at + 48, 4)
            is_right = crc(head + node[8:60], 0) == number(at + 64, 4)
            is_right &= 68 + csize <= length and crc(node[68 : 68 + csize], 0) == number(at + 60, 4)
            # Zeros after a header have right checksums, but there is no inode 0.
            is_right &= number(at + 12, 4) != 0
            version = number(at + 16, 4)
        elif JFFS2[kind] == "dirent":
            nsize = number(at + 28, 1)
            is_right = crc(head + node[8:32], 0) == number(at + 32, 4)
            is_right &= 40 + nsize <= length and crc(node[40 : 40 + nsize], 0) == number(at + 36, 4)
            version = number(at + 16, 4)
        # The length of a node is right if its header is; so nothing begins inside of it.
        yield at, "jffs2." + JFFS2[kind] if is_right else None, length, version


def ubi(image):
    """Yields place, kind and length of each header."""
    right = lambda at: crc(image[at : at + 60]) == int.from_bytes(image[at + 60 : at + 64], "big")
    begins = [at for at in places(image, b"UBI#", 512) if right(at)]
    if not begins:
        return
    first = begins[0]
    peb = min((later - at for at, later in zip(begins, begins[1:])), default=len(image))
    vid = int.from_bytes(image[first + 16 : first + 20], "big")
    for at in begins:
        if (at - first) % peb == 0:
            yield at, "ubi.ec", 64, None
    for at in places(image, b"UBI!", 64):
        if (at - first) % peb == vid and right(at):
            yield at, "ubi.vid", 64, int.from_bytes(image[at + 40 : at + 48], "big")


def outermost(found):
    """Leaves out what is inside of something else: the content of a file."""
    end, kept = 0, []
    for item in sorted(found, key=lambda item: item[0]):
        if item[0] >= end:
            kept.append(item)
            end = item[0] + item[2]
    return kept


def main(image, census):
    image = open(image, "rb").read()
    records, at = {}, 0
    for line in open(census, encoding="utf-8"):
        words = line.split()
        fields = dict(word.split("=", 1) for word in words[4:] if "=" in word)
        records[at] = (words[2], int(words[1]), words[3], fields)
        at += int(words[1])
    assert at == len(image), f"the census ends at {at} of {len(image)}"
    kinds = {kind.split(".")[0] for kind, _, _, _ in records.values()}
    found = []
    if "ubifs" in kinds or "ubi" in kinds:
        found += [*ubifs(image), *ubi(image)]
    if "jffs2" in kinds:
        orders = {order: list(jffs2(image, order)) for order in ("little", "big")}
        found += max(orders.values(), key=len)
    found = [item for item in outermost(found) if item[1] is not None]
    wrong = []
    for at, kind, length, number in found:
        known, size, state, fields = records.get(at, (None, 0, None, {}))
        numbers = [fields.get(name) for name in ("sqnum", "version") if name in fields]
        is_there = known == kind and size >= length and state != "torn"
        if not is_there or (number is not None and numbers and str(number) not in numbers):
            wrong.append((at, kind, length, number, "in the census:", known, size, state, fields))
    seen = {at for at, _, _, _ in found}
    for at, (kind, size, state, fields) in records.items():
        is_judged = kind in ["ubi.ec", "ubi.vid", *("jffs2." + name for name in JFFS2.values())]
        is_judged |= kind.startswith("ubifs.")
        if is_judged and state != "torn" and fields.get("crc") == "ok" and at not in seen:
            wrong.append((at, kind, size, state, fields, "only in the census"))
    for line in wrong[:20]:
        print(*line, file=sys.stderr)
    print(json.dumps({"found": len(found), "kinds": Counter(kind for _, kind, _, _ in found)}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
