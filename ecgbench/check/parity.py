"""Parity: a network of ours against another implementation with the same weights and input.

A model whose file defines `reference(network)` is compared with it layer by layer: LAEF with itself
by torch's convolutions and torch_geometric's GATv2Conv (see `layers`). Any model can be compared
with arrays that its authors' code produced (see `check`).

A *pack* is an npz of arrays, its *keys* a JSON of the authors' state-dict entries. Every array
whose name begins with `feat` is computed again: `feat_T600_subset_I_II` is the pooled feature of
600 samples when the network reads only leads I and II.

The blocks of ST-MEM and ECG-JEPA have a second reading, timm's Block: with the same weights it
gives the same features bit for bit (`test_timm_reads_its_blocks_alike`).

Names that differ from the file's are told by the prefix and the entries left out of the card's
weights.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from ecgbench import models
from ecgbench.cards.cell import EITHER
from ecgbench.cards.model import ModelCard
from ecgbench.check import rule
from ecgbench.check.models import SUBSETS
from ecgbench.core.seeds import rng
from ecgbench.ecg.leads import ALL, LEADS, LIMB, canonical
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.evaluate.network import build

BY_INTENT = {
    "stmem feat_T600_upstream_onelead_II": "upstream copies one lead into all twelve slots by "
    "broadcasting",
    "ecgfm feat_pad2000": "a record shorter than a window is left out, not padded and masked",
    "hubertecg feat_attention_mask": "upstream reduces the mask to its number of ones, which cuts "
    "off the last leads",
}
"""Model and array: arrays that document a fault of upstream code, which our network does not
have.
"""

TOLERANCE = 1e-5
"""Largest difference allowed, times max(1, largest value of the array)."""

_FILLS = {"subset": np.nan, "zerofill": 0.0, "absentminus1": -1.0}


@dataclass(frozen=True)
class Row:
    """One array of the pack."""

    array: str
    """Or the layer, with its leads."""
    status: Literal["ok", "differs", "cannot compute", "not reproduced, by intent"]
    difference: float | None = None
    """Largest absolute difference; None where nothing was compared or it is not finite."""
    limit: float | None = None
    reason: str = ""


def check(name: str, pack: Path, keys: Path, seed: str) -> list[Row]:
    """Compare the model called `name` with every `feat` array of the npz `pack`, with
    pseudo-weights from `keys` and `seed`; a row for each.

    A file that is missing or not what it should be, or a model that does not exist, is an
    EcgbenchError; entries that are not those of the network are a failed check.
    """
    name = models.resolve(name)
    module = models.get(name)
    key_facts = _read_keys(keys, module.CARD)
    arrays = _arrays(pack, key_facts.get("size", ""))
    network = module.build()
    if problem := rule.fill(network, key_facts, seed, module.CARD.weights):
        return [Row(array, "cannot compute", reason=problem) for array in arrays]
    # frozen: the path that a run takes
    network.eval().requires_grad_(False)
    computed = partial(_computed, network, module.CARD, key_facts, seed)
    return [_row(name, array, values, computed) for array, values in arrays.items()]


def layers(name: str) -> list[Row]:
    """Compare the model called `name`, with released weights where they are here, with its
    `reference`, which has the same parameters: a row for each layer that the reference computes in
    another way, and for the pooled feature, under each of a few sets of leads.

    BadSetting for a model without a reference, or where torch_geometric is not installed.
    """
    module = models.get(name)
    if not hasattr(module, "reference"):
        raise BadSetting(
            f"check parity {name}: its file has no reference(network) to be compared with layer "
            f"by layer; give arrays of its authors' code: --pack, --keys and --seed-string"
        )
    built, rows = build(models.resolve(name), EITHER), []
    ours, theirs, fed = built.module, module.reference(built.module), built.card.contracts[0]
    own = dict(ours.named_modules())
    differing = [n for n, m in theirs.named_modules() if n in own and type(m) is not type(own[n])]
    x = rng("parity", "layers").standard_normal((2, len(fed.leads), fed.received), np.float32)
    for subset in (*SUBSETS, ALL):
        measured = np.tile([lead in subset for lead in fed.leads], (len(x), 1))
        signal = np.where(measured[..., None], x, np.float32(np.nan))
        one, other = (_outputs(net, differing, signal, measured) for net in (ours, theirs))
        where = subset if subset != ALL else "12 leads"
        found = [_row(name, layer, values, one.__getitem__) for layer, values in other.items()]
        rows += [replace(row, array=f"{row.array}, {where}") for row in found]
    return rows


@torch.inference_mode()
def _outputs(
    network: nn.Module, names: list[str], signal: np.ndarray, measured: np.ndarray
) -> dict[str, np.ndarray]:
    """What some modules of a network give in one pass, and the pooled feature."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str, *passed: Any) -> None:
        found[name] = passed[-1].numpy().copy()

    hooks = [network.get_submodule(n).register_forward_hook(partial(keep, n)) for n in names]
    pooled = network(torch.from_numpy(signal), torch.from_numpy(measured)).pooled
    for hook in hooks:
        hook.remove()
    return found | {"pooled feature": pooled.numpy()}


def passed(rows: list[Row]) -> bool:
    """Every array was compared and is within its limit, those left out by intent excepted."""
    known = {row.status for row in rows}
    return "ok" in known and known <= {"ok", "not reproduced, by intent"}


def parse(array: str) -> tuple[int | None, list[tuple[str, tuple[str, ...]]]]:
    """What an array's name asks for: samples (None without `_T<n>`), and in the order of the name
    ("subset" | "zerofill" | "absentminus1", leads that stay). BadSetting for any other name.

    >>> parse("feat_T600_subset_I_II")
    (600, [('subset', ('I', 'II'))])
    >>> parse("features_zerofill_limb6_T500")[1][0][1]
    ('I', 'II', 'III', 'aVR', 'aVL', 'aVF')
    """
    head, *modifiers = array.replace("+", "_").split("_")
    if head not in ("feat", "features"):
        raise BadSetting(f"array {array!r} is neither feat nor features")
    time: int | None = None
    steps: list[tuple[str, tuple[str, ...]]] = []
    for modifier in modifiers:
        if re.fullmatch(r"T\d+", modifier):
            time = int(modifier[1:])
        elif modifier == "zeros":
            steps.append(("zeros", LEADS))
        elif modifier == "leads12":
            steps.append(("each", LEADS))
        elif modifier == "s0" and steps:  # of the first sample
            continue
        elif modifier in _FILLS:
            steps.append((modifier, ()))
        elif steps and (more := _leads(modifier)):
            kind, leads = steps.pop()
            steps.append((kind, leads + more))
        else:
            raise BadSetting(f"array {array!r}: {modifier!r} is not a suffix of the rule")
    if not all(leads for _, leads in steps):
        raise BadSetting(f"array {array!r} has a suffix without leads")
    return time, steps


def _leads(word: str) -> tuple[str, ...]:
    if word == "limb6":
        return LIMB
    try:
        return (canonical(word),)
    except UnknownName:
        return ()


def _read_keys(path: Path, card: ModelCard) -> dict[str, Any]:
    """A keys file, its entries and the name of the input checked; of a network of several sizes
    (checkpoint_S and n_params_S) those of the one on the card, whose "size" is in names of arrays.
    """
    try:
        key_facts = dict(json.loads(path.read_text(encoding="utf-8")))
        for name in [n for n in key_facts if n.startswith("checkpoint_")]:
            size = name.removeprefix("checkpoint")
            if key_facts.get(f"n_params{size}") == card.parameters:
                key_facts |= {"checkpoint": key_facts[name], "size": size}
        entries = rule.entries(key_facts)
        known = all(isinstance(e["key"], str) and isinstance(e["shape"], list) for e in entries)
        if known and _of_input(key_facts, "name"):
            return key_facts
    except (OSError, ValueError, LookupError, StopIteration, TypeError, AttributeError):
        pass
    raise BadSetting(
        f"{path} (given with --keys) is no JSON that lists {' or '.join(rule.LAYOUTS)}, with key "
        f"and shape of each, and has the name of the input"
    )


def _of_input(key_facts: dict[str, Any], fact: str) -> Any:
    """A fact of the input: name, T (samples), n_leads; None where the file does not say it."""
    described = key_facts.get("input")
    found = described.get(fact) if isinstance(described, dict) else None
    found = found[0] if isinstance(found, list) and found else found  # the usual one of several
    return key_facts.get("input_name") or found if fact == "name" else found


def _arrays(path: Path, size: str) -> dict[str, np.ndarray]:
    """The features in a pack; of a network of several sizes those of one, without it in names."""
    with suppress(Exception):  # what numpy raises depends on where a file was cut
        with np.load(path, allow_pickle=False) as pack:
            named = [a for a in pack.files if a.startswith("feat") and size in a]
            arrays = {a.replace(size, "", 1) if size else a: pack[a] for a in named}
        if arrays:
            return arrays
    raise BadSetting(f"{path} (given with --pack) is no npz with an array of a name feat...")


def _computed(
    network: nn.Module, card: ModelCard, key_facts: dict[str, Any], seed: str, array: str
) -> np.ndarray:
    """The array of that name; BadSetting or ValueError where the network cannot give it."""
    (time, steps), leads = parse(array), list(card.contracts[0].leads)
    # "ecgfounder (x[:,0:1,:])": a network of fewer leads reads rows of the full one's input
    name = str(_of_input(key_facts, "name"))
    part = re.fullmatch(r"(.+?)\s*\(x\[:,(\d+):(\d+),:\]\)", name, re.DOTALL)
    rows = _of_input(key_facts, "n_leads") or (len(LEADS) if part else len(leads))
    time = time or _of_input(key_facts, "T")
    if not isinstance(time, int) or not isinstance(rows, int):
        raise BadSetting("neither the array's name nor the keys give one shape of the input")
    x = rule.windows(part[1] if part else name, seed, rows, time)
    if part:
        x = np.ascontiguousarray(x[:, int(part[2]) : int(part[3])])
    leads = leads[: x.shape[1]]
    measured: np.ndarray = np.ones(x.shape[:2], bool)
    if row := re.search(r"\brow (\d+)\b", str(_of_input(key_facts, "note"))):
        measured[:, np.arange(len(leads)) != int(row[1])] = False  # a network of one lead
    for kind, kept in steps:
        if kind == "each":  # the leads of the first window, each alone
            x, measured = x[:1].repeat(len(leads), axis=0), np.identity(len(leads), bool)
            continue
        if kind == "zeros":  # one window without a signal
            x, measured = np.zeros_like(x[:1]), measured[:1]
            continue
        if foreign := [n for n in kept if n not in leads]:
            raise BadSetting(f"the network has no input {', '.join(foreign)}")
        if kind == "subset" and not card.native:
            raise BadSetting("the network reads all its leads or none; it has no subsets")
        absent = [n not in kept for n in leads]
        x[:, absent] = _FILLS[kind]
        measured[:, absent] &= kind != "subset"
    with torch.inference_mode():
        pooled: np.ndarray = network(torch.from_numpy(x), torch.from_numpy(measured)).pooled.numpy()
    return pooled


def _row(model: str, array: str, pack: np.ndarray, computed: Callable[[str], np.ndarray]) -> Row:
    if why := BY_INTENT.get(f"{model} {array}"):
        return Row(array, "not reproduced, by intent", reason=why)
    try:
        if pack.dtype.kind not in "fiu" or not pack.size or not np.isfinite(pack).all():
            raise BadSetting("the pack's values are not finite numbers")
        ours = computed(array)
        if ours.shape != pack.shape:
            raise BadSetting(f"the network gives shape {ours.shape}, the pack has {pack.shape}")
    except (BadSetting, ValueError, RuntimeError) as error:
        return Row(array, "cannot compute", reason=str(error).split("\n")[0])
    limit = TOLERANCE * max(1.0, float(np.abs(pack).max()))
    difference = float(np.abs(ours.astype(np.float64) - pack).max())
    if not np.isfinite(difference):
        return Row(array, "differs", limit=limit, reason="not finite")
    return Row(array, "ok" if difference <= limit else "differs", difference, limit)
