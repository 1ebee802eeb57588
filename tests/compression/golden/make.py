#!/usr/bin/python3
"""Writes the golden frames beside it, by docs/formats/frame.md alone: a second implementation, in a few lines for each
codec and slow, that shares nothing with the library. The frames are committed and decoded by golden_test for ever; this
runs only to add one. Rewriting a frame that exists is an error: old frames must stay readable as they are.

    tests/compression/golden/make.py        add what is missing
    tests/compression/golden/make.py -n     say what differs

Needs libxxhash, liblz4 and libzstd as Debian has them (libxxhash0, liblz4-1, libzstd1).
"""
import ctypes
import os
import random
import struct
import sys

xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
lz4 = ctypes.CDLL("liblz4.so.1")
zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_compress.restype = ctypes.c_size_t

BLOCK = 65536
CODECS = ["raw", "zvc", "zvc_exp", "rle", "csr8", "lz4", "zstd"]
TYPES = ["u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"]
SHAPES = {"u8": (1, 0, 7), "u16": (2, 0, 15), "u32": (4, 0, 31), "u64": (8, 0, 63), "f8e4m3": (1, 4, 3),
          "f8e5m2": (1, 5, 2), "f16": (2, 5, 10), "bf16": (2, 8, 7), "f32": (4, 8, 23), "f64": (8, 11, 52)}
ZERO, RAW, REPEAT, CODED, SPARSE = range(5)


def xxh3(data):
    return xxhash.XXH3_64bits(bytes(data), len(data))


def up(n, unit):
    return -(-n // unit) * unit


def padded(data, unit):
    return data + bytes(up(len(data), unit) - len(data))


def elements(content, width):
    return [int.from_bytes(content[i:i + width], "little") for i in range(0, len(content), width)]


def mask_words(values):
    bits = sum(1 << i for i, v in enumerate(values) if v)
    return [bits >> (64 * w) & (2**64 - 1) for w in range(up(len(values), 64) // 64)]


def words(list_of_words):
    return struct.pack("<%dQ" % len(list_of_words), *list_of_words)


def short_form(mask):
    return words(mask_words(mask)) + words([w for w in mask if w])


def best_mask(values, force=None):
    mask = mask_words(values)
    whole, short = words(mask), short_form(mask)
    sparse = len(short) < len(whole) if force is None else force
    return (SPARSE, short) if sparse else (CODED, whole)


def packed(values, width):
    return b"".join(v.to_bytes(width, "little") for v in values if v)


def zvc(content, kind, force=None):
    width = SHAPES[kind][0]
    values = elements(content, width)
    which, mask = best_mask(values, force)
    return which, mask + packed(values, width)


def group_code(values, shape):
    width, exponent_bits, mantissa_bits = shape
    sign_bit = 8 * width - 1
    exponents = [v >> mantissa_bits & (2**exponent_bits - 1) for v in values]
    sign = int(any(v >> sign_bit for v in values))
    trail = 0
    while trail < mantissa_bits and all(v >> trail & 1 == 0 for v in values):
        trail += 1
    base = min(exponents)
    return base, (max(exponents) - base).bit_length(), sign, trail


def squeeze(values, shape, code):
    width, exponent_bits, mantissa_bits = shape
    base, exponent_width, sign, trail = code
    stream, at = 0, 0
    for v in values:
        mantissa = (v & (2**mantissa_bits - 1)) >> trail
        exponent = ((v >> mantissa_bits & (2**exponent_bits - 1)) - base) % 2**exponent_bits if exponent_bits else 0
        one = mantissa | exponent << (mantissa_bits - trail)
        if sign:
            one |= (v >> (8 * width - 1)) << (mantissa_bits - trail + exponent_width)
        stream |= one << at
        at += sign + exponent_width + mantissa_bits - trail
    return stream.to_bytes(-(-at // 8), "little")


def zvc_exp(content, kind, loose=False):
    shape = SHAPES[kind]
    values = elements(content, shape[0])
    which, mask = best_mask(values)
    headers, bits = b"", b""
    for first in range(0, len(values), 1024):
        present = [v for v in values[first:first + 1024] if v]
        if not present:
            headers += struct.pack("<I", 0)
            continue
        code = (0, shape[1], 1, 0) if loose else group_code(present, shape)
        headers += struct.pack("<I", code[0] | code[1] << 11 | code[2] << 15 | code[3] << 16)
        bits += squeeze(present, shape, code)
    return which, mask + headers + bits


def rle(content, kind):
    width = SHAPES[kind][0]
    values = elements(content, width)
    runs, at = [], 0  # (zeros, values) without a limit
    while at < len(values):
        z = next((i for i in range(at, len(values)) if values[i]), len(values)) - at
        v = next((i for i in range(at + z, len(values)) if not values[i]), len(values)) - at - z
        runs.append((z, v))
        at += z + v
    pairs = b""
    for z, v in runs:
        while z > 255:
            pairs += bytes([255, 0])
            z -= 255
        pairs += bytes([z, min(v, 255)])
        v -= min(v, 255)
        while v > 0:
            pairs += bytes([0, min(v, 255)])
            v -= min(v, 255)
    return CODED, padded(struct.pack("<II", len(pairs) // 2, 0) + pairs, 8) + packed(values, width)


def csr8(content, kind):
    width = SHAPES[kind][0]
    values = elements(content, width)
    rows = [[i for i, v in enumerate(values[r:r + 256]) if v] for r in range(0, len(values), 256)]
    counts = padded(b"".join(struct.pack("<H", len(r)) for r in rows), 8)
    return CODED, padded(counts + b"".join(bytes(r) for r in rows), 8) + packed(values, width)


def by_lz4(content, _):
    out = ctypes.create_string_buffer(len(content) + 1000)
    n = lz4.LZ4_compress_default(content, out, len(content), len(out))
    return CODED, out.raw[:n]


def by_zstd(content, _):
    out = ctypes.create_string_buffer(len(content) + 1000)
    n = zstd.ZSTD_compress(out, ctypes.c_size_t(len(out)), content, ctypes.c_size_t(len(content)), 1)
    return CODED, out.raw[:n]


ENCODERS = {"zvc": zvc, "zvc_exp": zvc_exp, "rle": rle, "csr8": csr8, "lz4": by_lz4, "zstd": by_zstd}


def is_dense(content, width):
    groups = BLOCK // width // 64
    values = elements(content, width)
    zeros = sum(v == 0 for i in range(16) for v in values[i * groups // 16 * 64:][:64])
    return zeros < 1024 // (8 * width)


def encode_block(codec, kind, content):
    """By the rules of "Which kind a block becomes"."""
    width = SHAPES[kind][0]
    if not any(content):
        return ZERO, b""
    if len(content) > 16 and content == content[:width] * (len(content) // width):
        return REPEAT, (content[:width] * 16)[:16]
    if codec == "raw" or (codec in ("zvc", "rle", "csr8") and len(content) == BLOCK and is_dense(content, width)):
        return RAW, content
    which, payload = ENCODERS[codec](content, kind)
    return (which, payload) if up(len(payload), 16) < len(content) else (RAW, content)


def frame(codec, kind, content, alignment=4, encode=encode_block):
    blocks = [content[i:i + BLOCK] for i in range(0, len(content), BLOCK)]
    table, payload = b"", b""
    for i, block in enumerate(blocks):
        which, data = encode(codec, kind, block)
        extent = data if which == RAW else padded(data, 16)
        checksum = 0 if which == ZERO else xxh3(extent)
        table += struct.pack("<QII", checksum, up(len(payload), 16) // 16, which << 24 | len(data))
        payload = padded(payload, 16) + extent
    offset = up(64 + len(table), 1 << alignment)
    table += bytes(offset - 64 - len(table))
    head = struct.pack("<4sBBBBQQQQQQ", b"TRF1", 1, CODECS.index(codec), TYPES.index(kind), alignment, len(content),
                       len(payload), offset, xxh3(table), 0, 0)
    return head + struct.pack("<Q", xxh3(head)) + table + payload


def relu(kind, n, zeros, seed):
    """Half of a normal distribution, in the type's own bits, with a share of zeros."""
    source = random.Random(seed)
    width, exponent_bits, mantissa_bits = SHAPES[kind]
    out = b""
    for _ in range(n):
        v = 0
        if source.random() >= zeros:
            exponent = max(1, 2**exponent_bits // 2 - 1 - int(source.expovariate(1))) if exponent_bits else 0
            v = exponent << mantissa_bits | source.getrandbits(mantissa_bits) | (0 if exponent_bits else 1)
        out += v.to_bytes(width, "little")
    return out


def ordinary():
    """What the compressor writes, too, bit for bit (but for lz4 and zstd)."""
    for codec in CODECS:
        for kind in TYPES if codec in ("zvc", "zvc_exp") else ("u8", "bf16", "f32", "f64"):
            content = relu(kind, 1500, 0.62, codec + kind)
            yield "%s-%s" % (codec, kind), frame(codec, kind, content), content
    f32 = struct.pack("<5f", 1, -0.0, float("inf"), float("nan"), 1e-42)
    for codec in CODECS:
        content = bytes(BLOCK) + f32[:4] * (BLOCK // 4) + (f32 + bytes(4 * 59)) * 64
        content += bytes(BLOCK - len(content) % BLOCK) + struct.pack("<f", 3)
        yield "%s-every-kind" % codec, frame(codec, "f32", content), content
    dead = bytes(30000) + relu("bf16", 500, 0.3, "dead") + bytes(34536 - 3) + b"\x01\x02\x03"
    for codec in ("zvc", "zvc_exp", "rle", "csr8"):
        yield "%s-mostly-zero" % codec, frame(codec, "bf16", dead), dead
    runs = b"".join(bytes(2 * z) + b"\x05\x3f" * v for z, v in ((0, 255), (255, 1), (256, 256), (510, 511), (765, 3), (9, 0)))
    yield "rle-long-runs", frame("rle", "bf16", runs), runs
    example = struct.pack("<16f", *[{1: 1.0, 14: -0.0}.get(i, 0.0) for i in range(16)])
    yield "worked-example", frame("zvc", "f32", example), example
    yield "empty", frame("zvc", "f64", b""), b""
    yield "aligned-4096", frame("zvc", "f16", relu("f16", 700, 0.7, "4096"), 12), relu("f16", 700, 0.7, "4096")
    yield "one-element", frame("zvc", "f64", struct.pack("<d", -2)), struct.pack("<d", -2)
    last = bytes(BLOCK) + struct.pack("<d", 7)
    yield "last-block-of-one", frame("zvc_exp", "f64", last), last


def odd():
    """What no encoder of ours writes, but the format allows."""
    two = relu("u8", 64, 0.05, "dense") + b"\x01"
    yield "coded-though-larger-values-zero", frame("zvc", "u16", bytes(160), encode=lambda *_: (
        CODED, words([7, 0]) + bytes(6))), bytes(160)
    yield "raw-though-zero", frame("zvc", "u8", bytes(100), encode=lambda *_: (RAW, bytes(100))), bytes(100)
    yield "repeat-though-zero", frame("rle", "u8", bytes(33), encode=lambda *_: (REPEAT, bytes(16))), bytes(33)
    yield "raw-though-sparse", frame("zvc_exp", "u8", bytes(70) + two, encode=lambda c, k, b: (RAW, b)), bytes(70) + two
    some = relu("u16", 600, 0.5, "short")
    yield "short-mask-though-longer", frame("zvc", "u16", some, encode=lambda c, k, b: zvc(b, k, True)), some
    sparse = bytes(8000) + b"\x09" + bytes(95)
    yield "full-mask-though-longer", frame("zvc", "u8", sparse, encode=lambda c, k, b: zvc(b, k, False)), sparse
    wide = relu("f32", 3000, 0.62, "wide")
    yield "loose-groups", frame("zvc_exp", "f32", wide, encode=lambda c, k, b: zvc_exp(b, k, True)), wide
    wrapped = struct.pack("<4H", 0x0080, 0, 0x7f80, 0x0080) + bytes(192)
    code = (255, 8, 0, 7)  # exponents 255 + 2, + 0, + 2 modulo 256
    payload = words([0b1101, 0]) + struct.pack("<I", code[0] | code[1] << 11 | code[3] << 16) + squeeze(
        [0x0080, 0x7f80, 0x0080], SHAPES["bf16"], code)
    yield "exponents-that-wrap", frame("zvc_exp", "bf16", wrapped, encode=lambda *_: (CODED, payload)), wrapped


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    lines, bad = [], 0
    for group, make in (("same", ordinary), ("odd", odd)):
        for name, data, content in make():
            codec = CODECS[data[5]]
            mode = "foreign" if codec in ("lz4", "zstd") and group == "same" else group
            lines.append("%-34s %-8s %016x" % (name, mode, xxh3(content)))
            path = os.path.join(here, name + ".trf")
            if not os.path.exists(path) and "-n" not in sys.argv:
                with open(path, "wb") as out:
                    out.write(data)
            elif not os.path.exists(path) or open(path, "rb").read() != data:
                print("%s: differs from what this program makes" % path, file=sys.stderr)
                bad = 1
    text = "# frame, whether our compressor writes the same bytes (docs: make.py), XXH3-64 of the content\n" + "\n".join(lines) + "\n"
    if "-n" not in sys.argv:
        with open(os.path.join(here, "index.txt"), "w") as out:
            out.write(text)
    return bad


if __name__ == "__main__":
    sys.exit(main())
