"""A finished pre-training of LAEF into the folder that ships: its encoder in float16, how it came
about, its curves.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from ecgbench.core.files import as_json, put
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.models import laef
from ecgbench.weights import load

FILE, REPORT = "laef.safetensors", "pretraining.json"
_ENCODER = "encoder.safetensors"
_CURVES = {
    "curve_stage1.csv": "stage1/curve.csv",
    "curve_stage2.csv": "stage2/curve.csv",
    "elbow_stage1.csv": "stage1/elbow.csv",
    "elbow_stage2.csv": "stage2/elbow.csv",
}
"""Name in the folder that ships -> file of a pre-training."""


def pack(run: Path, to: Path) -> dict[str, Any]:
    """Write what ships of the pre-training in `run` (see `ecgbench pretrain`) into `to`, with the
    same bytes every time.

    Returns what pretraining.json then says under "shipped": file, bytes, sha256 (which belongs on
    LAEF's card), dtype, digest of the tensors as they are loaded, and the largest change of a value
    by rounding to float16. BadSetting: `run` is not finished, or is `to`. BadWeights: the encoder
    is not the one that its pretraining.json describes, or float16 cannot hold it. WriteError.
    """
    if to.resolve() == run.resolve():
        raise BadSetting(
            f"--to {to} is the pre-training itself, which stays as it is; name another folder"
        )
    missing = [name for name in (_ENCODER, REPORT, *_CURVES.values()) if not (run / name).is_file()]
    if missing:
        raise BadSetting(
            f"{run} holds no finished pre-training: {missing[0]} is not there; run ecgbench "
            f"pretrain on that folder again"
        )
    report = _report(run / REPORT)
    with torch.random.fork_rng(devices=[]):
        network = laef.build(run / _ENCODER)
    if load.digest(network) != report["encoder"]:
        raise BadWeights(
            f"{run / _ENCODER} is not the encoder that {run / REPORT} describes; run ecgbench "
            f"pretrain on that folder again"
        )
    exact = network.state_dict()
    half = {name: tensor.to(torch.float16) for name, tensor in exact.items()}
    beyond = [name for name, tensor in half.items() if not tensor.isfinite().all()]
    if beyond:
        raise BadWeights(
            f"{run / _ENCODER}: {beyond[0]} holds values beyond "
            f"{torch.finfo(torch.float16).max:g}, the largest of float16"
        )
    change = max(float((half[name].float() - tensor).abs().max()) for name, tensor in exact.items())
    network.load_state_dict(half)
    content = _in_order(
        save(
            half,
            {
                "network": laef.CARD.title,
                "recipe": report["recipe"]["digest"],
                "encoder": report["encoder"],
            },
        )
    )
    shipped = {
        "file": FILE,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "dtype": "float16",
        "tensors": load.digest(network),
        "largest_change": change,
    }
    for name, source in _CURVES.items():
        put(to / name, (run / source).read_bytes())
    put(to / REPORT, as_json({**report, "shipped": shipped}))
    put(to / FILE, content)
    return shipped


def _report(path: Path) -> dict[str, Any]:
    """pretraining.json, as far as it is one."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(report["encoder"], str) and isinstance(report["recipe"]["digest"], str):
            return report
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise BadWeights(
        f"{path} describes no encoder and recipe; run ecgbench pretrain on that folder again"
    )


def _in_order(content: bytes) -> bytes:
    """A safetensors file with a sorted header: the library writes several entries of its metadata
    in an order of chance.
    """
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(
        json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("python tools/pack.py RUN DIR: the files that ship of a pre-training")
    shipped = pack(Path(sys.argv[1]), Path(sys.argv[2]))
    print(
        f"{shipped['file']}: rounding moved no value by more than {shipped['largest_change']:.1e}"
    )
    print(f"sha256 {shipped['sha256']}, which belongs on LAEF's card")
