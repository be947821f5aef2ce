"""Silt: packing a signal into small integers with a scale per block and error carried from entry to entry.

A pack is a plain dictionary: ``codes`` (blocks x block size, integers), ``scales`` and ``checks`` (one per
block), ``length`` (number of entries before padding) and ``top`` (the largest code).
"""

import math

import numpy as np


class HeaderError(ValueError):
    """What is said about a signal or a pack as a whole cannot be right."""


class BlockError(ValueError):
    """One block cannot be packed, or contradicts its own scale or checksum."""


def settle_(buffer, *, floor=0.125):
    """Let small entries of a 1-D float array sink onto larger ones, in place; return how many moved.

    Entries that are exactly zero have nothing to move and are not counted.
    """
    if buffer.ndim != 1 or buffer.size == 0:
        raise HeaderError("settle_ takes a 1-D array with at least one entry")
    if not np.isfinite(buffer).all():
        raise HeaderError("settle_ takes finite entries only")
    # <paper2code name="small entries settle in place">
    sizes = np.abs(buffer)
    heavy = sizes >= floor * sizes.max()
    beds = np.flatnonzero(heavy)
    moved = 0
    for place in np.flatnonzero(~heavy & (sizes > 0)):
        bed = beds[max(np.searchsorted(beds, place) - 1, 0)]
        buffer[bed] += buffer[place]
        buffer[place] = 0.0
        moved += 1
    return moved
    # </paper2code name="small entries settle in place">


def block_scale(block, top):
    """Return the scale of one block, a power of the square root of two."""
    # <paper2code name="half-octave scale of a block">
    peak = float(np.max(np.abs(block)))
    if peak == 0.0:
        return 1.0
    octave = math.floor(2.0 * math.log2(peak / top) + 0.5)
    if octave > 40:
        raise BlockError("the block is too loud for a scale of 2 ** 20")
    return 2.0 ** (max(octave, -40) / 2.0)
    # </paper2code name="half-octave scale of a block">


def reconstruct(codes, scale, top):
    """Return the values that codes stand for; a code at either end stands for a little more than itself."""
    codes = np.asarray(codes)
    return scale * (codes + 0.25 * np.sign(codes) * (np.abs(codes) == top))


def block_check(codes):
    """Return the checksum of one block of codes, 0 to 30."""
    odd = 2 * np.arange(len(codes)) + 1
    return int(odd @ np.asarray(codes)) % 31


def encode_block(block, scale, *, top, backwards):
    """Return the integer codes of one block, rounded in forward or backward order."""
    codes = np.zeros(len(block), dtype=int)
    # <paper2code name="rounding with carried error">
    carry = 0.0
    places = range(len(block))
    for place in reversed(places) if backwards else places:
        wanted = float(block[place]) + 0.75 * carry
        # <paper2code name="rounding of one entry with saturation">
        level = min(math.floor(abs(wanted) / scale + 0.5), top)
        codes[place] = int(math.copysign(level, wanted))
        # </paper2code name="rounding of one entry with saturation">
        lost = wanted - float(reconstruct(codes[place], scale, top))
        carry = min(max(lost, -scale), scale)
    # </paper2code name="rounding with carried error">
    return codes


def pack(values, *, block=8, bits=5):
    """Return the pack of a 1-D signal; every second block, starting with the second, is rounded backwards."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise HeaderError("a signal is a 1-D sequence of finite numbers, at least one")
    if block < 1 or not 2 <= bits <= 16:
        raise HeaderError("blocks have at least one entry and codes 2 to 16 bits")
    top = 2 ** (bits - 1) - 1
    missing = -values.size % block
    if missing:
        # <paper2code name="filling of the last block">
        filling = values[missing - block :].mean()
        # </paper2code name="filling of the last block">
        padded = np.append(values, np.full(missing, filling))
    else:
        padded = values
    rows = padded.reshape(-1, block)
    scales = [block_scale(row, top) for row in rows]
    codes = [
        encode_block(row, scale, top=top, backwards=number % 2 == 1)
        for number, (row, scale) in enumerate(zip(rows, scales, strict=True))
    ]
    return {
        "codes": np.array(codes),
        "scales": np.array(scales),
        "checks": np.array([block_check(row) for row in codes]),
        "length": int(values.size),
        "top": top,
    }


def verify(packed):
    """Raise ``HeaderError`` or ``BlockError`` when a pack contradicts itself; return the number of blocks."""
    codes, scales = np.asarray(packed["codes"]), np.asarray(packed["scales"], dtype=float)
    checks, length, top = np.asarray(packed["checks"]), packed["length"], packed["top"]
    # <paper2code name="refusal of damaged packs">
    if codes.ndim != 2 or not len(codes) == len(scales) == len(checks):
        raise HeaderError("codes, scales and checks disagree about the blocks")
    if not codes.size - codes.shape[1] < length <= codes.size:
        raise HeaderError("the length does not end in the last block")
    for row, scale, check in zip(codes, scales, checks):
        if not 0.0 < scale < np.inf or np.abs(row).max() > top:
            raise BlockError("scale or codes out of range")
        if block_check(row) != check:
            raise BlockError("wrong checksum")
    # </paper2code name="refusal of damaged packs">
    return len(codes)


def unpack(packed):
    """Return the signal of a pack, after ``verify``."""
    blocks = verify(packed)
    rows = [reconstruct(packed["codes"][i], packed["scales"][i], packed["top"]) for i in range(blocks)]
    return np.concatenate(rows)[: packed["length"]]
