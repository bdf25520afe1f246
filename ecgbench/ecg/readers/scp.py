"""What an SCP-ECG file says that `ecgdatakit` refuses: that its first sample is number 0.

Source: ISO 11073-91064, sections 0 and 3; the standard counts from 1, some carts from 0.
"""

import binascii
import struct
from pathlib import Path

import numpy as np

HEAD, POINTER = 16, 10
"""Bytes of the header of a section, and of a pointer to one."""
SUBTRACTED = 0x01
"""The flag of a file whose rhythm lacks its median beat, which stands at numbers of samples."""
LEAD = np.dtype([("first", "<u4"), ("last", "<u4"), ("code", "u1")])


def prepared(path: Path, folder: Path) -> Path:
    """A file whose samples are counted from 1, written into `folder` where a lead begins at 0: all
    of its leads are counted so, and one that begins at 1 begins a sample later. Where a median beat
    was subtracted it stays as it is, as its place may be counted in either way.
    """
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from("<I", data, 10)
    for at in range(6 + HEAD, 6 + size, POINTER):
        number, length, where = struct.unpack_from("<HII", data, at)
        if number == 3 and length > HEAD + 2:
            break
    else:
        return path
    start = where - 1
    flags, count = data[start + HEAD + 1], data[start + HEAD]
    leads = np.frombuffer(data, LEAD, count, start + HEAD + 2)
    if leads["first"].min(initial=1) > 0 or flags & SUBTRACTED:
        return path
    parts = [(start, start + length), (0, struct.unpack_from("<I", data, 2)[0])]
    sound = [_crc(data, *part) == bytes(data[part[0] : part[0] + 2]) for part in parts]
    leads["first"] += 1
    leads["last"] += 1
    for part, right in zip(parts, sound):
        if right:  # a wrong one stays wrong
            data[part[0] : part[0] + 2] = _crc(data, *part)
    path = folder / "prepared.scp"
    path.write_bytes(data)
    return path


def _crc(data: bytearray, start: int, end: int) -> bytes:
    return struct.pack("<H", binascii.crc_hqx(data[start + 2 : end], 0xFFFF))
