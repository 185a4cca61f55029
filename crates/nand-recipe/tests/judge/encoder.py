"""An encoder of raw NAND dumps that shares nothing with the crate: layouts, codes and scramblers are
written again here, with integers as polynomials. Standard library only.

Usage: encoder.py IMAGE OUT NAME [key=value ...] prints one JSON line: the number of flipped bits in
written codewords and in erased ones, and the bad blocks. Keys: seed, flips (most in a codeword; -1 is
the strength of the code), share (percent of codewords with flips), bad (blocks, separated by commas),
boot (name of another layout for the first blocks), boot_blocks, scramble (seed of a register), ppb.
"""
import json
import random
import sys


def field(m, poly):
    exp, value = [], 1
    for _ in range((1 << m) - 1):
        exp.append(value)
        value <<= 1
        if value >> m:
            value ^= poly
    return exp, {v: i for i, v in enumerate(exp)}


def generator(m, poly, t):
    exp, log = field(m, poly)
    n = (1 << m) - 1
    g, seen = 1, set()
    for e in range(1, 2 * t, 2):
        if e in seen:
            continue
        roots = [e]
        while roots[-1] * 2 % n != e:
            roots.append(roots[-1] * 2 % n)
        seen.update(roots)
        p = [1]
        for r in roots:
            q = [0] * (len(p) + 1)
            for i, c in enumerate(p):
                q[i + 1] ^= c
                if c:
                    q[i] ^= exp[(log[c] + r) % n]
            p = q
        minimal = sum(c << i for i, c in enumerate(p))
        g = sum_shifts(g, minimal)
    return g


def sum_shifts(a, b):
    out = 0
    while b:
        low = b & -b
        out ^= a << (low.bit_length() - 1)
        b ^= low
    return out


class Bch:
    def __init__(self, m, poly, t):
        self.t = t
        self.g = generator(m, poly, t)
        self.bits = self.g.bit_length() - 1
        self.low = self.g ^ 1 << self.bits
        self.table = []
        for byte in range(256):
            r = byte << (self.bits - 8)
            for _ in range(8):
                r <<= 1
                if r >> self.bits:
                    r = r & ((1 << self.bits) - 1) ^ self.low
            self.table.append(r)

    def parity(self, message, count):
        """The remainder of a message of `count` bits, an integer."""
        count8 = -(-count // 8) * 8
        data = message.to_bytes(count8 // 8, "big")
        r, top, mask, table = 0, self.bits - 8, (1 << self.bits) - 1, self.table
        for byte in data:
            r = (r << 8 & mask) ^ table[r >> top ^ byte]
        return r


class Hamming:
    """Linux: 256 bytes, spec mtd-nand 7."""

    t, bits = 1, 24

    def parity(self, message, count):
        data = message.to_bytes(256, "big")
        rp, columns = [0] * 16, 0
        for i, byte in enumerate(data):
            columns ^= byte
            if bin(byte).count("1") & 1:
                for k in range(8):
                    rp[2 * k + (i >> k & 1)] ^= 1
        cp = []
        for mask in (0x55, 0xAA, 0x33, 0xCC, 0x0F, 0xF0):
            cp.append(bin(columns & mask).count("1") & 1)
        first = sum(rp[8 + i] << i for i in range(8))
        second = sum(rp[i] << i for i in range(8))
        third = sum(cp[i] << (2 + i) for i in range(6))
        return (first << 16 | second << 8 | third) ^ 0xFFFFFF


class Rs:
    """Parity symbols of 10 bits, roots alpha^1 to alpha^8."""

    t, bits = 4, 80

    def __init__(self):
        self.exp, self.log = field(10, 0x409)
        g = [1]
        for e in range(1, 9):
            q = g + [0]
            for i, c in enumerate(g):
                q[i + 1] ^= self.mul(c, self.exp[e])
            g = q
        self.g = g[1:]

    def mul(self, a, b):
        return self.exp[(self.log[a] + self.log[b]) % 1023] if a and b else 0

    def parity(self, message, count):
        rest = [0] * 8
        for byte in message.to_bytes(count // 8, "big"):
            f = rest[0] ^ byte
            rest = [x ^ self.mul(f, c) for x, c in zip(rest[1:] + [0], self.g)]
        out = 0
        for symbol in rest:
            out = out << 10 | symbol
        return out


class Layout:
    """Places are (first bit, bits) of the raw page in the order of the code."""

    def __init__(self, page, oob, code, lsb=False, inverted=False, natural=False, const=None):
        self.page, self.oob, self.code = page, oob, code
        self.lsb, self.inverted, self.natural, self.const = lsb, inverted, natural, const
        self.words, self.zeros, self.swap, self.marker = [], [], None, page

    def word(self, data, parity, lead=(), spare=()):
        self.words.append((list(lead), list(data), list(spare), parity))


def b(start, count):
    return (start * 8, count * 8)


def layout(name):
    family, _, rest = name.partition(":")
    parts = rest.split(":")
    page, _, oob = parts[0].partition("+")
    page, oob = int(page), int(oob)
    t = int(parts[1][1:]) if len(parts) > 1 and parts[1][:1] == "t" else 0
    n = page // 512
    if family == "linux-hamming":
        lay = Layout(page, oob, Hamming())
        for i in range(page // 256):
            at = {64: 40, 16: 0}.get(oob, 80) + 3 * i
            if oob == 16 and i:
                places = [b(page + 3, 1), b(page + 6, 2)]
            else:
                places = [b(page + at, 3)]
            lay.word([b(256 * i, 256)], places)
        if page == 512:
            lay.marker = page + 5
        return lay
    if family in ("linux-bch4", "linux-bch8", "atmel-pmecc"):
        t = {"linux-bch4": 4, "linux-bch8": 8}.get(family, t)
        lay = Layout(page, oob, Bch(13, 0x201B, t), lsb=family == "atmel-pmecc", natural=True)
        size = -(-13 * t // 8)
        for i in range(n):
            lay.word([b(512 * i, 512)], [((page + oob - (n - i) * size) * 8, 13 * t)])
        return lay
    if family in ("linux-bch-max", "atmel-pmecc-1k"):
        n = page // 1024
        t = t or (oob - 2) // n * 8 // 14
        poly, lsb = (0x402B, False) if family == "linux-bch-max" else (0x4443, True)
        lay = Layout(page, oob, Bch(14, poly, t), lsb=lsb, natural=True)
        size = -(-14 * t // 8)
        for i in range(n):
            lay.word([b(1024 * i, 1024)], [((page + oob - (n - i) * size) * 8, 14 * t)])
        return lay
    if family.startswith("omap-"):
        t = {"omap-bch8-hw": 8, "omap-bch4-hw": 4, "omap-bch16-hw": 16}.get(family, t)
        each = {4: 8, 8: 14, 16: 26}[t]
        lay = Layout(page, oob, Bch(13, 0x201B, t), natural=family == "omap-bch-sw")
        for i in range(n):
            at = (page + 2 + each * i) * 8
            lay.word([b(512 * i, 512)], [(at, 13 * t)])
            if not lay.natural and each * 8 > 13 * t:
                lay.zeros.append((at + 13 * t, each * 8 - 13 * t))
        return lay
    if family == "qnx-ifs-bch4":
        lay = Layout(page, oob, Bch(13, 0x201B, 4))
        for i in range(4):
            lay.word([b(512 * i, 512)], [((2064 + 7 * i) * 8 + 4, 52)], spare=[b(2048 + 4 * i, 4)])
            lay.zeros.append(((2064 + 7 * i) * 8, 4))
        return lay
    if family.startswith("qcom-"):
        chunk = 532 if family == "qcom-bch8" else 528
        code = Rs() if family == "qcom-rs" else Bch(13, 0x201B, 8 if chunk == 532 else 4)
        lay = Layout(page, oob, code)
        gap, last = page - (n - 1) * chunk, page - (n - 1) * 516
        for i in range(n):
            s, d = i * chunk, last if i == n - 1 else 516
            spare = [b(s + d + 1, 516 - d)] if d < 516 else []
            lay.word([b(s, gap), b(s + gap + 1, d - gap)], [((s + 517) * 8, code.bits)], spare=spare)
        return lay
    if family in ("brcm-bch4", "brcm-bch8"):
        code = Bch(13, 0x201B, 4) if family == "brcm-bch4" else Bch(14, 0x5803, 8)
        lay = Layout(page, oob, code)
        for i in range(n):
            s = (page + 16 * i) * 8
            lay.word([b(512 * i, 512)], [(s + 128 - code.bits, code.bits)], spare=[(s, 128 - code.bits)])
        return lay
    if family == "mtk-nfi":
        each = oob // n
        t = (each - 8) * 8 // 13 // 2 * 2
        lay = Layout(page, oob, Bch(13, 0x201B, t), lsb=True)
        for i in range(n):
            s = i * (512 + each)
            lay.word([b(s, 512)], [((s + 520) * 8, 13 * t)], spare=[b(s + 512, 8)])
        lay.swap = (page * 8, (page // (512 + each) * (512 + each) + 512) * 8)
        return lay
    if family == "sunxi":
        each = 4 + -(-(-(-14 * t // 8)) // 2) * 2
        lay = Layout(page, oob, Bch(14, 0x5803, t), lsb=True)
        for i in range(page // 1024):
            s = page + i * each
            lay.word([b(1024 * i, 1024)], [((s + 4) * 8, 14 * t)], spare=[b(s, 4)])
        return lay
    if family == "gpmi":
        t = (oob - 10) * 8 // (13 * n) // 2 * 2
        lay = Layout(page, oob, Bch(13, 0x201B, t), lsb=True)
        for i in range(n):
            s = 80 + i * (4096 + 13 * t)
            lay.word([(s, 4096)], [(s + 4096, 13 * t)], lead=[] if i else [b(0, 10)])
        lay.swap = (page * 8, 0)
        return lay
    if family == "hisi-balong":
        lay = Layout(2048, 64, Bch(14, 0x4443, 8), lsb=True, inverted=True)
        lay.word([b(0, 1040)], [b(0x410, 14)])
        lay.word([b(0x41E, 994), b(0x802, 14)], [b(0x810, 14)], spare=[b(0x800, 2), b(0x81E, 30)])
        return lay
    if family == "amlogic-bch8":
        lay = Layout(page, oob, Bch(14, 0x402B, 8), inverted=True)
        lay.marker = None
        for i in range(n):
            lay.word([b(528 * i, 512)], [b(528 * i + 514, 14)], spare=[b(528 * i + 512, 2)])
        return lay
    if family == "fsl-ifc":
        lay = Layout(page, oob, Bch(13, 0x201B, 4))
        for i in range(n):
            lay.word([b(512 * i, 512)], [((page + 8 + 8 * i) * 8, 52)])
        return lay
    if family == "own":
        # own:PAGE+OOB:m.poly.t:step:order:place:const, place is e (at the end), u<n> (n user bytes
        # before each parity), i<n> (interleaved with n user bytes)
        m, poly, t = parts[1].split(".")
        code, step = Bch(int(m), int(poly, 16), int(t)), int(parts[2])
        const = {"none": None, "natural": None}.get(parts[5], parts[5])
        lay = Layout(page, oob, code, lsb=parts[3] == "lsb", natural=parts[5] == "natural",
                     const=const and int(const, 16))
        size, count, place = -(-code.bits // 8), page // step, parts[4]
        user = int(place[1:] or 0)
        for i in range(count):
            if place[0] == "e":
                lay.word([b(step * i, step)], [((page + oob - (count - i) * size) * 8, code.bits)])
            elif place[0] == "u":
                s = page + i * (size + user)
                lay.word([b(step * i, step)], [((s + user) * 8, code.bits)], spare=[b(s, user)])
            else:
                s = i * (step + user + size)
                lay.word([b(s, step)], [((s + step + user) * 8, code.bits)], spare=[b(s + step, user)])
        lay.marker = None
        return lay
    raise SystemExit(f"no layout {name}")


REVERSED = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))


class Writer:
    def __init__(self, lay):
        self.lay = lay
        self.total = (lay.page + lay.oob) * 8
        self.const = {}

    def get(self, page, places):
        out, count = 0, 0
        for start, bits in places:
            out = out << bits | page >> (self.total - start - bits) & ((1 << bits) - 1)
            count += bits
        return out, count

    def put(self, page, places, value):
        for start, bits in reversed(places):
            shift = self.total - start - bits
            mask = (1 << bits) - 1
            page = page & ~(mask << shift) | (value & mask) << shift
            value >>= bits
        return page

    def constant(self, count):
        """What is added to the parity."""
        lay, code = self.lay, self.lay.code
        ones = (1 << code.bits) - 1
        if lay.natural and count not in self.const:
            self.const[count] = code.parity((1 << count) - 1, count) ^ ones
        if lay.natural:
            return self.const[count]
        if lay.const is not None:
            return lay.const & ones
        return ones if lay.inverted else 0

    def encode(self, data):
        """A raw page as an integer in the order of the code."""
        lay = self.lay
        if lay.lsb:
            data = data.translate(REVERSED)
        page = (1 << self.total) - 1
        value, at = int.from_bytes(data, "big"), lay.page * 8
        moved = None
        for _, places, _, _ in lay.words:
            for start, bits in places:
                at -= bits
                part = value >> at & ((1 << bits) - 1)
                page = self.put(page, [(start, bits)], part)
        if lay.swap:
            marker, holder = lay.swap
            moved, _ = self.get(page, [(marker, 8)])
            page = self.put(page, [(marker, 8)], 0xFF)
            page = self.put(page, [(holder, 8)], moved)
        for place in lay.zeros:
            page = self.put(page, [place], 0)
        for lead, places, spare, parity in lay.words:
            message, count = self.get(page, lead + places + spare)
            if lay.inverted:
                message ^= (1 << count) - 1
            value = lay.code.parity(message, count) ^ self.constant(count)
            page = self.put(page, parity, value)
        return page

    def flip(self, page, rng, most, share):
        flipped = 0
        most = self.lay.code.t if most < 0 else min(most, self.lay.code.t)
        for lead, places, spare, parity in self.lay.words:
            if rng.random() * 100 >= share:
                continue
            bits = [start + i for start, count in lead + places + spare + parity for i in range(count)]
            if isinstance(self.lay.code, Rs):
                symbols = rng.sample(range(516), rng.randint(0, most))
                order = [start + i for start, count in places + spare for i in range(count)]
                chosen = [order[8 * s + rng.randrange(8)] for s in symbols]
            else:
                chosen = rng.sample(bits, rng.randint(0, most))
            for bit in chosen:
                page ^= 1 << (self.total - 1 - bit)
            flipped += len(chosen)
        return page, flipped

    def raw(self, page):
        out = page.to_bytes(self.total // 8, "big")
        return out.translate(REVERSED) if self.lay.lsb else out


def keystream(seed, page, size):
    """Allwinner's register, from a seed of our own for each of 128 pages."""
    state = random.Random(seed * 1000 + page % 128).randrange(1, 1 << 15)
    step = lambda s: s >> 1 | ((s ^ s >> 1) & 1) << 14
    for _ in range(15):
        state = step(state)
    out = bytearray()
    for _ in range(size):
        out.append(state & 0xFF)
        for _ in range(8):
            state = step(state)
    return bytes(out)


def main():
    image, out, name = sys.argv[1:4]
    keys = dict(argument.split("=", 1) for argument in sys.argv[4:])
    rng = random.Random(int(keys.get("seed", 1)))
    flips, share = int(keys.get("flips", 0)), float(keys.get("share", 100))
    bad = {int(x) for x in keys.get("bad", "").split(",") if x}
    main_writer = Writer(layout(name))
    boot = Writer(layout(keys["boot"])) if "boot" in keys else None
    lay = main_writer.lay
    per_block = int(keys.get("ppb", 64 if lay.page > 512 else 32))
    data = open(image, "rb").read()
    total, streams = 0, {}
    with open(out, "wb") as file:
        for number in range(-(-len(data) // lay.page)):
            page = data[number * lay.page:(number + 1) * lay.page].ljust(lay.page, b"\xff")
            block, size = number // per_block, lay.page + lay.oob
            if block in bad:
                raw = bytearray(rng.randbytes(size))
                if number % per_block < 2:
                    raw[lay.marker] = 0
                file.write(raw)
                continue
            if page == b"\xff" * lay.page:
                file.write(b"\xff" * size)
                continue
            writer = boot if boot and block < int(keys["boot_blocks"]) else main_writer
            encoded, flipped = writer.flip(writer.encode(page), rng, flips, share)
            total += flipped
            raw = writer.raw(encoded)
            if "scramble" in keys:
                if number % 128 not in streams:
                    streams[number % 128] = keystream(int(keys["scramble"]), number, size)
                raw = bytes(x ^ y for x, y in zip(raw, streams[number % 128]))
            file.write(raw)
    print(json.dumps({"flipped": total, "bad": sorted(bad)}))


if __name__ == "__main__":
    main()
