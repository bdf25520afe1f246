"""The parts of benchmarks/gpu.py: each gives rows of figures as it gets them, the most valuable
first.
"""

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from laef import PAPER, PEAK, example, gflop
from torch import Tensor, nn

from ecgbench import models
from ecgbench.adapters.hide import Policy
from ecgbench.core.prefetch import prefetched
from ecgbench.evaluate import batches, rows
from ecgbench.evaluate.encode import Encoder
from ecgbench.evaluate.network import build
from ecgbench.models import laef
from ecgbench.pretrain import masking
from ecgbench.pretrain.objective import MaskedNodes
from ecgbench.profile import clock

Row = dict[str, Any]
TOLERANCE = 0.005
"""By which a macro AUROC of a run on a GPU may differ from the CPU's: features differ in their last
bits, and fits end in slightly other places.
"""
LEAST = 60
"""Seconds that must be left for a model to be compiled and recorded as a graph too."""
FULL = 448
"""Records of a pre-training step (paper)."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a part runs, and how much of it."""

    device: str
    small: bool
    folder: Path
    until: float
    """On the monotonic clock; long parts end themselves before it."""

    @property
    def cuda(self) -> bool:
        """Whether there is a GPU."""
        return self.device != "cpu"

    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()


@dataclass(frozen=True)
class Part:
    """A part and its share of the time."""

    title: str
    share: float
    rows: Callable[[Where], Iterator[Row]]


def machine(where: Where) -> Iterator[Row]:
    """What this is."""
    yield {**clock.about(where.device), "python": sys.version.split()[0]}
    if where.cuda:
        here = torch.cuda.get_device_properties(where.device)
        yield {
            "memory GB": here.total_memory / 1e9,
            "multiprocessors": here.multi_processor_count,
            "capability": f"{here.major}.{here.minor}",
            "CUDA": torch.version.cuda,
            "cuDNN": torch.backends.cudnn.version(),
            "GPUs": torch.cuda.device_count(),
        }
        asked = "driver_version,clocks.max.sm,power.limit"
        said = subprocess.run(
            ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
        yield {"driver, clock, power": said.stdout.strip() or said.stderr.strip()}


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Whether products may round to 10 bits."""
    was = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = was


def ways(
    network: nn.Module, x: tuple[Tensor, Tensor], where: Where, compile_too: bool
) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Name and call of each way to compute features on the device."""

    def plain() -> Tensor:
        return network(*x).pooled.float()

    def rough() -> Tensor:
        with torch.autocast(where.device.partition(":")[0], torch.bfloat16):
            return network(*x).pooled.float()

    def short() -> Tensor:
        with tf32(True):
            return plain()

    yield "float32", plain
    if where.cuda:
        yield "TF32", short
    yield "bf16", rough
    if not compile_too:
        return
    if where.cuda:
        yield "CUDA graph", graph(plain)
    compiled = torch.compile(network, dynamic=False)
    yield "compiled", lambda: compiled(*x).pooled.float()
    if where.cuda:

        def both() -> Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return compiled(*x).pooled.float()

        yield "compiled, bf16", both


def graph(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The call, recorded once and replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    recorded = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(recorded):
        result = call()

    def replay() -> Tensor:
        recorded.replay()
        return result

    return replay


def guarded(row: Row, measure: Callable[[], Row]) -> Row:
    """The row with what was measured, or with the error in place of it."""
    try:
        return {**row, **measure()}
    except Exception as error:  # one way that fails must not cost the others
        torch.cuda.empty_cache() if torch.cuda.is_available() else None
        return {**row, "error": f"{type(error).__name__}: {str(error)[:200]}"}


def timed(call: Callable[[], object], batch: int, where: Where) -> Row:
    """samples/s and peak memory of a pass."""
    peak = clock.peak(call, where.device, 0.0) if where.cuda else None
    ms = clock.milliseconds(call, where.device, 0.3 if where.small else 1.0)
    return {"samples/s": 1000 * batch / ms, "peak MB": peak}


def laef_rates(where: Where) -> Iterator[Row]:
    """LAEF beside the paper's A100 and the limit of the device."""
    torch.manual_seed(0)
    network = laef.build().eval().requires_grad_(False)
    moved = copy.deepcopy(network).to(where.device)
    batch = 2 if where.small else 64
    first, rest = (1, 12), tuple(range(2, 12))
    for leads in first if where.small else first + rest:
        signal, measured = example(batch, leads, "cpu")
        with torch.inference_mode():
            exact = network(signal[:8], measured[:8]).pooled
        x = signal.to(where.device), measured.to(where.device)
        for way, call in ways(moved, x, where, leads in first and not where.small):
            row = {"leads": leads, "way": way, "batch": batch}
            row = guarded(row, partial(against, call, exact, batch, where))
            yield row | beside(moved, row, where)
    for leads in () if where.small else first:
        yield from best_batch(moved, leads, where)


def against(call: Callable[[], Tensor], exact: Tensor, batch: int, where: Where) -> Row:
    """How far a way to compute is from the CPU's first features, and its rate."""
    with torch.inference_mode():
        apart = (call()[: len(exact)].cpu() - exact).abs().max() / exact.abs().max()
    return {"difference from CPU": float(apart), **timed(call, batch, where)}


def beside(network: laef.Laef, row: Row, where: Where) -> Row:
    """A rate beside the limit of the device and the paper's."""
    rate, leads = row.get("samples/s"), row["leads"]
    name = torch.cuda.get_device_name() if where.cuda else ""
    limits = next((peaks for part, peaks in PEAK.items() if part in name), None)
    rough = row["way"].endswith(("bf16", "TF32"))
    paper, memory = PAPER.get(leads, (None, None))
    spent = rate and rate * gflop(network, leads, where.device) / 1e3
    return {
        "of the limit": limits and spent and spent / limits[rough],
        "times the paper's rate": rate and paper and rate / paper,
        "paper's MB": memory,
    }


def best_batch(network: nn.Module, leads: int, where: Where) -> Iterator[Row]:
    """Twice the batch until it no longer pays by 5 %, or memory ends."""
    best, batch = 0.0, 128
    while batch <= 16384 and where.left() > 10:
        x = example(batch, leads, where.device)
        row = {"leads": leads, "way": "float32", "batch": batch}
        yield (row := guarded(row, partial(timed, partial(network, *x), batch, where)))
        if row.get("samples/s", 0) < 1.05 * best:
            return
        best, batch = row["samples/s"], 2 * batch


def evaluation(where: Where) -> Iterator[Row]:
    """Features of synthetic recordings as a run computes them: in batches of many records, and
    record by record. How fast batches are made ready, in how many threads.
    """
    names = ["laef"] if where.small else ["laef", "stmem", "ecgfounder", "merl"]
    batches.SLOTS = 8 if where.small else batches.SLOTS
    for name in names:
        net = build(name, "random", where.device)
        contract = net.card.contract("paper")
        encoder = Encoder(net.encoder, contract, Policy.of(contract.policy, dict))
        draw = np.random.default_rng(0)
        view = draw.normal(0, 0.3, (12, round(10 * contract.fs))).astype(np.float32)
        each, records = contract.windows(view.shape[1]), 8 if where.small else 2048
        places = batches.first_slots([each] * records)
        yield {"model": name, "same beside other windows": batches.steady(encoder)}
        for leads in (1, 12):
            masks = [4095 if leads == 12 else 1 << p % 12 for p in range(records)]
            wanted = [
                rows.encode(p, np.arange(each), np.full(each, m)) for p, m in enumerate(masks)
            ]
            row = {"model": name, "leads": leads, "windows": each * records}
            measure = partial(encoding, encoder, view, wanted, places)
            yield guarded(row, measure)
    for threads in (1, 4):
        started = time.perf_counter()
        made = list(
            prefetched(lambda i: masking.draw(0, i, range(FULL), 0.4, 0.2), range(8), threads)
        )
        rate = len(made) * FULL / (time.perf_counter() - started)
        yield {"threads": threads, "masks of stage 2, records/s": rate}


def encoding(
    encoder: Encoder, view: np.ndarray, wanted: list[np.ndarray], places: np.ndarray
) -> Row:
    """Windows per second in both ways, and how far they are apart."""
    asked = np.concatenate(wanted)
    list(batches.encoded(encoder, lambda p: view, asked[: batches.SLOTS], places))
    started = time.perf_counter()
    parts = list(batches.encoded(encoder, lambda p: view, asked, places))
    spent = time.perf_counter() - started
    done, features = (np.concatenate(part) for part in zip(*parts))
    few = wanted[:8]
    started = time.perf_counter()
    alone = []
    for part in few:
        _, window, mask = rows.decode(part)
        alone.append(encoder(view, {int(mask[0]): window})[int(mask[0])])
    single = time.perf_counter() - started
    first = np.concatenate(few)
    order = done.argsort()
    near = features[order[np.searchsorted(done, first, sorter=order)]]
    exact = np.concatenate(alone)
    apart = float(np.abs(near - exact).max() / np.abs(exact).max())
    return {
        "windows/s": len(asked) / spent,
        "record by record": len(first) / single,
        "difference": apart,
    }


def pretraining_steps(where: Where) -> Iterator[Row]:
    """One step of each stage with its parts, block attention eager and compiled."""
    batch = 4 if where.small else FULL
    for stage, drop, codes in (("1", 0.0, 50), ("2", masking.EDGE_DROP, 500)):
        for way in ("eager", "compiled")[: 1 if where.small else 2]:
            row = {"stage": stage, "attention": way, "records": batch}
            yield guarded(row, partial(pretraining_step, where, batch, drop, codes, way))


def pretraining_step(where: Where, batch: int, drop: float, codes: int, way: str) -> Row:
    """Milliseconds of forward, backward and optimiser, and of drawing what is masked."""
    started = time.perf_counter()
    drawn = masking.draw(0, 1, range(batch), masking.MASKED, drop)
    spent: Row = {"masks on the CPU ms": 1000 * (time.perf_counter() - started)}
    model = MaskedNodes(laef.build(), [codes]).train().to(where.device)
    if way == "compiled" and not model.encoder.compile_training():
        raise RuntimeError("nothing can be compiled here")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    measured, masked, dropped = (
        None if a is None else torch.from_numpy(a).to(where.device)
        for a in (drawn.measured, drawn.masked, drawn.dropped)
    )
    signal = torch.randn(batch, 12, 500, device=where.device)
    target = torch.randint(codes, (1, *drawn.masked.shape), device=where.device)

    def step() -> list[float]:
        marks = [time.perf_counter()]

        def mark() -> None:
            if where.cuda:
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(where.device.partition(":")[0], torch.bfloat16):
            loss = model(signal, measured, masked, target, dropped).loss
        mark()
        loss.backward()
        mark()
        optimiser.step()
        mark()
        return [*np.diff(marks), marks[-1] - marks[0]]

    if where.cuda:
        torch.cuda.reset_peak_memory_stats()
    turns = 1000 * np.median([step() for _ in range(2 if where.small else 8)][1:], axis=0)
    spent |= dict(zip(("forward ms", "backward ms", "optimiser ms", "step ms"), turns.tolist()))
    return spent | {"peak MB": torch.cuda.max_memory_allocated() / 1e6 if where.cuda else None}


def small_run(where: Where) -> Iterator[Row]:
    """A study on the device and on the CPU: the scores are the same within TOLERANCE."""
    chosen = ["laef", str(HERE.parent / "tests/tiny.py")]
    if not where.small:
        chosen += ["stmem", "ecgfounder"]
    scores = {}
    for device in dict.fromkeys([where.device, "cpu"]):
        out = where.folder / "runs" / device.replace(":", "_")
        started = time.perf_counter()
        ecgbench("run", *_study(where, chosen, "120"), "--device", device, "--out", str(out))
        seconds = time.perf_counter() - started
        scores[device] = _scores(out)
        yield {"device": device, "seconds": seconds, "cells": len(scores[device])}
    for cell, on_cpu in scores["cpu"].items():
        apart = abs(scores[where.device][cell] - on_cpu)
        if not apart <= TOLERANCE:
            raise AssertionError(f"{cell}: {apart:.4f} apart, more than {TOLERANCE}")
        yield {"cell": cell, "CPU": on_cpu, "difference": apart, "tolerance": TOLERANCE}


HERE = Path(__file__).resolve().parent


def _study(where: Where, names: list[str], limit: str) -> list[str]:
    """Options of a small study of synthetic recordings."""
    weights = [
        "--tasks",
        "demo",
        "--weights",
        "random",
        "--limit",
        limit,
        "--leads",
        "1,12",
        "--seeds",
        "1",
    ]
    prepared = ["--prepared", str(where.folder / "prepared")]
    return ["--models", ",".join(names), *weights, *prepared]


def _scores(out: Path) -> dict[str, float]:
    from ecgbench.results.study import read

    cells = read(out).cells
    if len(lost := cells[cells["status"] != "ok"]):
        raise AssertionError(f"{len(lost)} cells have no number: {lost['reason'].iloc[0]}")
    named = cells["model"] + " " + cells["setting"]
    return dict(zip(named, cells["value"].astype(float)))


def ecgbench(*words: str, processes: int = 0, fine: Sequence[int] = (0,)) -> str:
    """A command, as a person types it; what it printed."""
    start = [sys.executable, "-m"]
    if processes:
        start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    done = subprocess.run(
        [*start, "ecgbench", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )
    if done.returncode not in fine:
        raise RuntimeError(f"ecgbench {' '.join(words)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def baselines(where: Where) -> Iterator[Row]:
    """Every other model: the CPU against the device in each precision, and its rate."""
    names = [n for n in models.names() if models.ROOM.built_in(n) and n != "laef"]
    batch = 1 if where.small else 64
    for name in names[:1] if where.small else names:
        exact = build(name, "random")
        contract = exact.card.contract("paper")
        shape = (batch, len(contract.leads), contract.received)
        signal = 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
        measured = torch.ones(shape[:2], dtype=torch.bool)
        few = min(batch, 4)
        with torch.inference_mode():
            wanted = exact.module(signal[:few], measured[:few]).pooled
        moved = exact.module.to(where.device)
        x = signal.to(where.device), measured.to(where.device)
        more = where.cuda and where.left() > LEAST
        for way, call in ways(moved, x, where, compile_too=more):
            row = {"model": name, "way": way, "batch": batch}
            yield guarded(row, partial(against, call, wanted, batch, where))


def determinism(where: Where) -> Iterator[Row]:
    """The same pass twice, and the same fine-tuning twice."""
    network = build("laef", "random", where.device).module
    x = example(4 if where.small else 64, 12, where.device)
    with torch.inference_mode():
        first, second = (network(*x).pooled.clone() for _ in range(2))
    yield {"what": "a pass of LAEF", "equal in every bit": bool(torch.equal(first, second))}
    heads = []
    for turn in ("a", "b"):
        out = where.folder / "runs" / f"twice_{turn}"
        _finetune(where, "tests/tiny.py" if where.small else "laef", out)
        heads.append(next(out.rglob("head.safetensors")).read_bytes())
    yield {"what": "a fine-tuning", "equal in every bit": heads[0] == heads[1]}


def _finetune(where: Where, name: str, out: Path, processes: int = 0) -> float:
    """Seconds of the second of two epochs."""
    model = str(HERE.parent / name) if name.endswith(".py") else name
    words = ["run", *_study(where, [model], "60" if where.small else "300"), "--leads", "12"]
    words += [
        "--protocol",
        "finetune",
        "--set",
        "training.epochs=2",
        "--yes",
        "--device",
        where.device,
    ]
    ecgbench(*words, "--out", str(out), processes=processes)
    fit = json.loads(next(out.rglob("fit.json")).read_text())
    return float(fit["epoch_seconds"][1])


def finetuning(where: Where) -> Iterator[Row]:
    """Seconds of an epoch of each model, validation included."""
    names = ["tests/tiny.py"]
    if not where.small:
        names = ["laef", *(n for n in models.names() if models.ROOM.built_in(n) and n != "laef")]
    for name in names:
        out = where.folder / "runs" / f"finetune_{Path(name).stem}"

        yield guarded({"model": name}, partial(_epoch, where, name, out))


def _epoch(where: Where, name: str, out: Path) -> Row:
    return {"seconds an epoch": _finetune(where, name, out)}


def torchrun(where: Where) -> Iterator[Row]:
    """A fine-tuning in as many processes as there are GPUs."""
    processes = torch.cuda.device_count() if where.cuda else 1
    out = where.folder / "runs" / "torchrun"
    seconds = _finetune(where, "tests/tiny.py", out, processes)
    yield {"processes": processes, "seconds an epoch": seconds}


def pretraining(where: Where) -> Iterator[Row]:
    """The recipe `smoke`: stopped, and ended by the same command."""
    words = ["pretrain", "smoke", "--device", where.device]
    words += ["--out", str(where.folder / "runs" / "smoke")]
    if where.small:
        words += ["--model", str(HERE.parent / "tests/narrow.py"), "--steps", "8,8"]
    for over in (["--minutes", "0.1"], []):
        started = time.perf_counter()
        said = ecgbench(*words, *over, fine=(0, 75))
        yield {
            "recipe": "smoke",
            "seconds": time.perf_counter() - started,
            "said": next((line for line in said.splitlines() if "stopped" in line), "ended"),
        }


PARTS = {
    "machine": Part("The machine", 1, machine),
    "laef": Part("LAEF: every way to compute it", 8, laef_rates),
    "steps": Part("A step of pre-training", 3, pretraining_steps),
    "evaluation": Part("Features in batches of many records", 3, evaluation),
    "run": Part("A study on the device and on the CPU", 6, small_run),
    "baselines": Part("The other models", 6, baselines),
    "determinism": Part("The same twice", 3, determinism),
    "finetune": Part("Fine-tuning", 6, finetuning),
    "torchrun": Part("Several processes", 2, torchrun),
    "pretrain": Part("A whole pre-training", 3, pretraining),
}
"""In order of value."""
