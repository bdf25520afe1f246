"""A pre-training on its way from one machine to the next, in files that a short loan lets through.

    DIR/carry.json                 whose it is, where it stands, and the parts with their hashes
        state-<hash>.00 ...        all but encoders: up to 40 MB for LAEF
        stage1-<hash>.00 ...       the encoder that is selected so far, of each stage

Weights travel exactly (float32, their bytes sorted by significance and deflated). The moments of
Adam travel in 8 bits: what goes on from them is not bit for bit what would have gone on without the
journey, and `carried.json` in the stage's folder keeps the steps at which that happened. A stage
that is finished travels without weights; an encoder that is not selected stays where it is.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ecgbench.errors import BadSetting, BadWeights
from ecgbench.files import as_json, metadata, put
from ecgbench.pretraining import checkpoint, output
from ecgbench.pretraining.kept_encoders import (
    ENCODERS,
    encoder_file,
    read_checkpoints,
    select,
)
from ecgbench.pretraining.moments import as_codes, as_moments
from ecgbench.pretraining.recipe import Recipe
from ecgbench.text import shortened

MANIFEST, CARRIED, BOOKS = "carry.json", "carried.json", "codebook.json"
FORMAT = 1
_PART_NAME = re.compile(r"(state|stage[12])(-\w+)?\.\d\d")
PART = 15_000_000
"""Bytes of a file at most."""
_LARGEST = 1 << 30
"""Bytes that a group may unpack to."""
_PLAIN = re.compile(
    r"recipe\.json|pretraining\.json|stage[12]/(codebook\.json|codebook_\d+\.npz|elbow\.csv"
    r"|devices\.json|carried\.json|encoders/\d+\.json)"
)
_TENSORS = re.compile(r"stage[12]/(checkpoint|encoders/\d+)\.safetensors")
Place = tuple[int, int]
"""Stage and steps made in it."""


def pack(recipe: Recipe, out: Path, to: Path) -> list[Path]:
    """Write what stands in `out` into `to`, in place of what is there; the files. WriteError.

    The manifest is replaced when all parts are there, and old parts go last, so that a kill leaves
    the old state or the new one. BadSetting: nothing has been made yet, or `to` holds another
    pre-training, or this one further on.
    """
    place = standing(out)
    if place is None:
        raise BadSetting(f"{out} holds nothing of a pre-training yet, so nothing can be carried")
    identity = output.read(out / output.RECIPE)
    if (to / MANIFEST).is_file():
        before = _manifest(to)
        output.demand_same(to / MANIFEST, before["identity"], identity)
        if _place(before) > place:
            raise BadSetting(
                f"{to} holds this pre-training at stage {before['stage']}, step {before['step']}, "
                f"which is further than {out} (stage {place[0]}, step {place[1]}); give another "
                f"--carry"
            )
    state, groups = {}, {}
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        name = path.relative_to(out).as_posix()
        if _PLAIN.fullmatch(name):
            state[name] = path.read_bytes()
    for number in (1, 2):
        stage = out / f"stage{number}"
        settings = recipe.stages[number - 1]
        measured = read_checkpoints(stage / ENCODERS, settings.probed)
        if measured:
            selected = select(stage / ENCODERS, measured, settings.falling, bool(carried(stage)))
            path = encoder_file(stage / ENCODERS, selected.step)
            name = path.relative_to(out).as_posix()
            groups[f"stage{number}"] = _zipped({name: _folded(path.read_bytes())})
        path = stage / checkpoint.FILE
        if path.is_file():
            whole = place[0] == number and not (measured and place[1] >= settings.steps)
            state[path.relative_to(out).as_posix()] = _folded(path.read_bytes(), whole)
    groups = {"state": _zipped(state)} | groups
    written, parts = [], {}
    for group, content in groups.items():
        pieces = [content[i : i + PART] for i in range(0, len(content), PART)]
        digests = [hashlib.sha256(piece).hexdigest() for piece in pieces]
        named = [f"{group}-{digest[:12]}.{i:02d}" for i, digest in enumerate(digests)]
        written += [put(to / name, piece) for name, piece in zip(named, pieces)]
        parts[group] = dict(zip(named, digests))
    manifest = {
        "format": FORMAT,
        "stage": place[0],
        "step": place[1],
        "identity": identity,
        "parts": parts,
    }
    written.append(put(to / MANIFEST, as_json(manifest)))
    for old in to.iterdir():
        if _PART_NAME.fullmatch(old.name) and old not in written:
            old.unlink()
    return written


def unpack(source: Path, out: Path, identity: dict[str, Any]) -> Place | None:
    """Put what `pack` wrote into `out`, unless that is as far already; where it stands then.

    identity: what `out` holds or will hold (`pretrain.facts`). None: nothing was done. BadSetting:
    what is carried, or what is in `out`, is another pre-training, or another pre-training is at
    work in `out`. BadWeights: a part is missing, has changed, or says what cannot be.
    """
    if not (source / MANIFEST).is_file():
        return None
    manifest = _manifest(source)
    output.demand_same(source / MANIFEST, manifest["identity"], identity)
    output.demand(out, identity)
    place, here = _place(manifest), standing(out)
    if here is not None and here >= place:
        return None
    try:
        whole = _opened(source, manifest, place)
    except (BadSetting, BadWeights):
        raise
    except Exception as error:  # what is read back may be wrong in any way
        reason = shortened(f"{type(error).__name__}: {error}", 200)
        raise BadWeights(f"{source} cannot be read ({reason}); carry it again") from error
    with output.alone(out):
        # checkpoints last, that of the last stage behind the other: where they stand all else does
        for name in sorted(whole, key=lambda n: (n.endswith(checkpoint.FILE), n)):
            if not (name.endswith(checkpoint.FILE) and _as_far(out / name, whole[name])):
                put(out / name, whole[name])
    return place


def _opened(source: Path, manifest: dict[str, Any], place: Place) -> dict[str, bytes]:
    """Every file that the bag holds, by its name in the folder of the pre-training."""
    files: dict[str, bytes] = {}
    for group, parts in manifest["parts"].items():
        files |= _unzipped(source / group, b"".join(_parts(source, parts)))
    for name in files:
        if not _PLAIN.fullmatch(name) and not _TENSORS.fullmatch(name):
            raise BadWeights(f"{source} holds {name!r}, which is no part of a pre-training")
    whole = {n: _unfolded(c) if _TENSORS.fullmatch(n) else c for n, c in files.items()}
    stage, step = place
    file = f"stage{stage}/{checkpoint.FILE}"
    if step and (file not in whole or checkpoint.header_of(whole[file], source)["step"] != step):
        raise BadWeights(f"{source} does not hold the state of stage {stage}, step {step}")
    if step:
        journeys = f"stage{stage}/{CARRIED}"
        before = [int(n) for n in list(json.loads(whole.get(journeys, b"[]")))]
        whole[journeys] = as_json([*before, step]).encode()
    return whole


def _manifest(source: Path) -> dict[str, Any]:
    """carry.json, if it is one of this version; BadSetting, BadWeights."""
    manifest = output.read(source / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BadSetting(f"{source / MANIFEST} is of another version of ecgbench; remove {source}")
    parts, where = manifest.get("parts"), (manifest.get("stage"), manifest.get("step"))
    sound = (
        isinstance(manifest.get("identity"), dict)
        and isinstance(parts, dict)
        and all(isinstance(part, dict) for part in parts.values())
        and all(type(number) is int and number >= 0 for number in where)
    )
    if not sound or where[0] not in (1, 2):
        raise BadWeights(f"{source / MANIFEST} is not as it was written; carry it again")
    return manifest


def _place(manifest: dict[str, Any]) -> Place:
    return manifest["stage"], manifest["step"]


def _as_far(path: Path, content: bytes) -> bool:
    """Whether a checkpoint that is there has made as many steps as one that arrives."""
    if not path.is_file():
        return False
    steps = (checkpoint.header_of(c, path)["step"] for c in (path.read_bytes(), content))
    return next(steps) >= next(steps)


def standing_of(stage: Path) -> int:
    """Steps of a stage's checkpoint, 0 where it has none."""
    path = stage / checkpoint.FILE
    return int(checkpoint.header_of(path.read_bytes(), path)["step"]) if path.is_file() else 0


def standing(out: Path) -> Place | None:
    """How far the pre-training in a folder is: step 0 where a stage has its codebook alone; None
    before the first.
    """
    for number in (2, 1):
        stage = out / f"stage{number}"
        if (stage / checkpoint.FILE).is_file() or (stage / BOOKS).is_file():
            return number, standing_of(stage)
    return None


def carried(stage: Path) -> list[int]:
    """Steps of a stage at which its moments were rounded for a journey."""
    path = stage / CARRIED
    return output.read(path) if path.is_file() else []


def _parts(source: Path, parts: dict[str, str]) -> Iterator[bytes]:
    for name, digest in parts.items():
        path = source / Path(name).name
        try:
            piece = path.read_bytes()
        except OSError as error:
            raise BadWeights(f"{path} is missing; copy all of {source} again") from error
        if hashlib.sha256(piece).hexdigest() != digest:
            raise BadWeights(f"{path} has changed since it was written; copy it again")
        yield piece


def _zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # the same state gives the same bytes
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _unzipped(path: Path, content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(info.file_size for info in archive.infolist()) > _LARGEST:
                raise BadWeights(f"{path}: larger than {_LARGEST >> 20} MiB once unpacked")
            return {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise BadWeights(f"{path}: its parts are no archive; copy them again") from error


def _folded(content: bytes, whole: bool = True) -> bytes:
    """A safetensors file whose values can be deflated; `whole`: with weights and moments, else
    without both.
    """
    words, tensors = metadata(content), load(content)
    shapes: dict[str, tuple[int, ...]] = {}
    folded: dict[str, np.ndarray] = {}
    for name, values in tensors.items():
        kind = name.partition("/")[0]
        if not whole and "/" in name:
            continue
        shapes[name] = values.shape
        if kind in ("exp_avg", "exp_avg_sq"):
            folded |= {f"{name}#{k}": v for k, v in as_codes(values, kind).items()}
        elif values.dtype == np.float32:
            folded[f"{name}#bytes"] = values.reshape(-1).view(np.uint8).reshape(-1, 4).T.copy()
        else:
            folded[name] = values
    return save(folded, {"words": json.dumps(words), "shapes": json.dumps(shapes)})


def _unfolded(content: bytes) -> bytes:
    """The safetensors file again."""
    try:
        words, folded = metadata(content), load(content)
        tensors: dict[str, np.ndarray] = {}
        for name, shape in json.loads(words["shapes"]).items():
            kind = name.partition("/")[0]
            if kind in ("exp_avg", "exp_avg_sq"):
                own = [k for k in folded if k.startswith(f"{name}#")]
                codes = {k.partition("#")[2]: folded[k] for k in own}
                tensors[name] = as_moments(codes, kind, math.prod(shape)).reshape(shape)
            elif f"{name}#bytes" in folded:
                plain = np.ascontiguousarray(folded[f"{name}#bytes"].T)
                tensors[name] = plain.reshape(-1).view("<f4").reshape(shape)
            else:
                tensors[name] = folded[name].reshape(shape)
        plain_words = dict(json.loads(words["words"]))
        header = json.loads(plain_words["stage"]) if "stage" in plain_words else None
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise BadWeights(f"what was carried cannot be read ({error}); carry it again") from error
    if header is None:
        return save(tensors)
    return checkpoint.signed({k: torch.from_numpy(v) for k, v in tensors.items()}, header)
