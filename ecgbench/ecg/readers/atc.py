"""Kardia's own files (ATC), which need no extra: blocks of a name, a length, data and a checksum.

Source: ATC File Format Specification 1.7, https://github.com/alivecor/ATCpy (docs). It calls the
checksum a sum and a CRC32; a block is whole where either fits, or the sum of signed bytes.
"""

import struct
import zlib
from pathlib import Path

import numpy as np

from ecgbench.ecg.leads import LEADS
from ecgbench.ecg.readers import cleaned
from ecgbench.ecg.readers.arrays import existing_file
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord

BLOCKS = dict(zip((b"ecg ", *(b"ecg%c" % c for c in b"23456789abc")), LEADS))
"""Block -> its lead."""


def read(path: Path, record: str, patient: str, options: ReadOptions) -> Recording:
    """The leads of the recording in a file, in mV.

    BadRecord for a file that is missing, truncated or damaged, and for leads of different lengths.
    """
    data, blocks, at = existing_file(path, record).read_bytes(), dict[bytes, bytes](), 12
    try:
        if data[:8] != b"ALIVE\0\0\0":
            raise BadRecord(f"{record}: {path.name} is no ATC file (it begins with {data[:8]!r})")
        while at < len(data):
            name, size = struct.unpack_from("<4sI", data, at)
            block, at = data[at : at + 8 + size], at + 12 + size
            (stated,) = struct.unpack_from("<I", data, at - 4)
            sums = sum(block), sum(np.frombuffer(block, np.int8).tolist())
            if stated not in (*(each % 2**32 for each in sums), zlib.crc32(block)):
                raise BadRecord(f"{record}: {path.name} is damaged: checksum of block {name!r}")
            blocks[name] = block[8:]
        kind, fs, nanovolts = struct.unpack_from("<BHH", blocks[b"fmt "])
    except (struct.error, KeyError) as error:
        raise BadRecord(f"{record}: {path.name} is truncated ({error})") from error
    there = [name for name in BLOCKS if name in blocks]
    lengths = {len(blocks[name]) for name in there}
    if kind != 1 or len(lengths) != 1 or min(lengths) % 2:
        sizes = ", ".join(f"{BLOCKS[name]} {len(blocks[name]) / 2:g}" for name in there)
        raise BadRecord(f"{record}: format {kind}, samples of each lead: {sizes or 'no lead'}")
    scale = 1e6 / nanovolts if nanovolts else options.scale(None, path, record)
    steps = np.stack([np.frombuffer(blocks[name], "<i2") for name in there])
    notes: cleaned.Notes = [(what, "the file") for what in ("unit", "rate", "names")]
    fs = options.rate([("its block fmt", float(fs))], path, record, field=True)
    leads = [BLOCKS[name] for name in there]
    return cleaned.recording(cleaned.marked(steps) / scale, leads, fs, (record, patient), notes)
