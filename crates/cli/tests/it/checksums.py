"""Computes the checksums of one structure with zlib, and fails unless they are stored in it.

checksums.py IMAGE KIND START LENGTH
"""

import sys
import zlib


def crc32(data, start=0xFFFFFFFF):
    # Flash formats leave out the last inversion of zlib; JFFS2 begins with 0, too.
    return zlib.crc32(data, start ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def crc16(data):
    value = 0xFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xA001 if value & 1 else 0)
    return value


def sums(kind, node):
    """Yields stored and computed checksums."""
    little = lambda at, size: int.from_bytes(node[at : at + size], "little")
    if kind == "ubifs":
        yield little(4, 4), crc32(node[8:])
    elif kind == "ubi":
        yield int.from_bytes(node[-4:], "big"), crc32(node[:-4])
    elif kind == "lpt":
        yield little(0, 2), crc16(node[2:])
    elif kind == "jffs2":
        yield little(8, 4), crc32(node[:8], 0)
        yield little(64, 4), crc32(node[:60], 0)
        yield little(60, 4), crc32(node[68:], 0)
    else:
        sys.exit(f"no kind {kind}")


image, kind, start, length = sys.argv[1:]
with open(image, "rb") as file:
    file.seek(int(start))
    node = file.read(int(length))
for stored, computed in sums(kind, node):
    if stored != computed:
        sys.exit(f"stored {stored:#x}, computed {computed:#x}")
