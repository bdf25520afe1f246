"""What lets LAEF learn at the paper's rate of 1e-3, and what does not: stage 1 in short, with one
thing changed at a time.

`python benchmarks/collapse.py --data DIR [--steps 100] [--batch 24] [--only "NAME;NAME"]`: PTB-XL's
training recordings, descriptor `mixed-ecg`; at a seed the same codebook, windows, masks and first
weights in all rows. Every 25 steps: mean cosine of nodes behind the embedder and the last block
(within leads, between leads), spectral entropy of the embedder, on 48 windows of training
recordings. At the end: the mean loss of the last 25 steps beside the entropy of the codes, and a
linear probe on patients who are set apart. A row that collapses is a finding; a difference of
probes of one seed is none.
A row that is in --out already is not computed again.
"""

import argparse
import csv
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from laef import machine

from ecgbench.core.cells import Folders
from ecgbench.errors import BadSetting
from ecgbench.pretrain import collapse, descriptors
from ecgbench.pretrain.assemble import assemble
from ecgbench.pretrain.codebook import Codes, codebooks, elbow
from ecgbench.pretrain.collapse import ALIKE, Layer, look
from ecgbench.pretrain.objective import MaskedNodes, new_network
from ecgbench.pretrain.probes import probed
from ecgbench.pretrain.recipe import get
from ecgbench.pretrain.run import Data
from ecgbench.pretrain.stage import Execution, Stage, run
from ecgbench.study.progress import SILENT

EVERY, SHOWN, RATE = 25, 48, 1e-3


def _scaled_convolutions(model: MaskedNodes) -> None:
    for part in model.modules():
        if isinstance(part, torch.nn.Conv1d):
            torch.nn.init.kaiming_normal_(part.weight)
            torch.nn.init.zeros_(part.bias)  # type: ignore[arg-type]


def _small_maps(model: MaskedNodes) -> None:
    """Blocks that begin as nearly nothing beside their skip connection."""
    with torch.no_grad():
        for block in model.encoder.blocks:  # type: ignore[union-attr]
            for p in block.parameters():
                if p.ndim == 2:
                    p.mul_(0.1)


def _no_mask(model: MaskedNodes) -> None:
    with torch.no_grad():
        model.mask.zero_()


def _nothing(model: MaskedNodes) -> None:
    pass


ROWS: dict[str, tuple[dict[str, object], Callable[[MaskedNodes], None]]] = {
    "as the paper says": ({}, _nothing),
    "warm-up of 50 steps": ({"warmup": 50}, _nothing),
    "warm-up of 100 steps": ({"warmup": 100}, _nothing),
    "gradients clipped at 1": ({"clip": 1.0}, _nothing),
    "gradients clipped at 0.1": ({"clip": 0.1}, _nothing),
    "warm-up of 100, clipped at 1": ({"warmup": 100, "clip": 1.0}, _nothing),
    "no weight decay": ({"weight_decay": 0.0}, _nothing),
    "AdamW": ({"adamw": True}, _nothing),
    "float32": ({"precision": "float32"}, _nothing),
    "convolutions by He": ({}, _scaled_convolutions),
    "attention maps a tenth": ({}, _small_maps),
    "mask vector 0": ({}, _no_mask),
    "rate 3e-4": ({"lr": 3e-4}, _nothing),
    "rate 3e-4, warm-up of 100": ({"lr": 3e-4, "warmup": 100}, _nothing),
    "rate 1e-4": ({"lr": 1e-4}, _nothing),
}


def main() -> None:
    """A row each, into a CSV as they come."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--micro", type=int)
    parser.add_argument("--precision", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--seeds", type=int, default=1, help="Of first weights, windows and masks.")
    parser.add_argument("--only", type=lambda text: text.split(";"), default=list(ROWS))
    parser.add_argument("--out", type=Path, default=Path("collapse.csv"))
    asked = parser.parse_args()
    recipe = get("small-cpu")
    settings = {"steps": asked.steps, "batch": asked.batch, "micro": asked.micro}
    settings |= {"lr": RATE, "probe_every": EVERY, "precision": asked.precision}
    try:
        stages = {
            name: replace(recipe.stages[0], **(settings | ROWS[name][0])) for name in asked.only
        }
    except KeyError as unknown:
        parser.error(f"--only {unknown}: no such row; there are {'; '.join(ROWS)}")
    except BadSetting as bad:
        parser.error(str(bad))
    print(machine("cpu"), flush=True)
    folders = Folders(data=asked.data, prepared=asked.prepared, out=Path())
    data = assemble(recipe, folders, SILENT)
    describe = descriptors.preset(recipe.descriptor)
    (book,) = codebooks(data.corpus, describe, recipe.codes, seed=recipe.seed).values()
    table = elbow([book], map(describe, data.development.check.batches("cpu")))
    chance = math.log(table["perplexity"].iloc[0])
    for seed in range(asked.seeds):
        for name in asked.only:
            initialise = ROWS[name][1]
            row = {"changed": name, "batch": asked.batch, "steps": asked.steps, "seed": seed}
            if _known(asked.out, row):
                continue
            torch.manual_seed(seed)
            stage = replace(stages[name], seed=2 * seed)
            model = MaskedNodes(new_network(recipe.model, recipe.shape), recipe.codes)
            initialise(model)
            _write(asked.out, row | tried(stage, model, data, Codes(describe, [book]), chance))


def tried(
    stage: Stage, model: MaskedNodes, data: Data, labels: Codes, chance: float
) -> dict[str, object]:
    """What became of one network."""
    development = data.development
    seen: list[tuple[int, Layer, Layer]] = []

    def measure(step: int, model: MaskedNodes) -> None:
        layers = collapse.measure(model.encoder, development.learn.batches("cpu", SHOWN))
        seen.append((step, layers[0], layers[-1]))

    measure(0, model)
    with tempfile.TemporaryDirectory() as folder:
        where = Execution(folder=Path(folder), probe=measure, alarm=False)
        points = run(stage, model, data.corpus, labels, where)
    recent = points[-EVERY:]
    _, first, last = seen[-1]
    equal = [step for step, *layers in seen if any(min(x.intra, x.inter) > ALIKE for x in layers)]
    signal = next(iter(development.learn.batches("cpu", SHOWN)))
    return {
        "equal_from_step": equal[0] if equal else "",
        "embedder_intra": round(first.intra, 4),
        "embedder_inter": round(first.inter, 4),
        "embedder_entropy": round(first.entropy, 4),
        "last_intra": round(last.intra, 4),
        "last_inter": round(last.inter, 4),
        "loss": round(sum(p.loss for p in recent) / len(recent), 4),
        "entropy_of_codes": round(chance, 4),
        "probe": round(100 * probed(model.encoder, development).score, 2),
        "alarm": look(model, signal, points, chance, stage.warmup),
    }


def _known(path: Path, row: dict[str, object]) -> bool:
    if not path.is_file():
        return False
    with path.open(newline="", encoding="utf-8") as file:
        return any(all(r[k] == str(v) for k, v in row.items()) for r in csv.DictReader(file))


def _write(path: Path, row: dict[str, object]) -> None:
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(", ".join(f"{k} {v}" for k, v in row.items() if v != ""), flush=True)


if __name__ == "__main__":
    main()
