"""Models that did what none may do: a file each in the run folder, which later jobs see, and other runs at work there."""

import json
from pathlib import Path

from ecgbench import models
from ecgbench.benchmark.evaluation import Evaluation
from ecgbench.cards import facts
from ecgbench.cells import FEATURES, key
from ecgbench.files import as_json, put
from ecgbench.room import folder_name


def identity(evaluation: Evaluation) -> str:
    """Hash of the network, its weights and its contract, and of a plug-in's file: another one deserves another try."""
    network = evaluation.network
    return key({
        "model": network.name, "source": models.ROOM.source_hash(network.name), "features": FEATURES, "weights": network.sha256,
        "precision": network.precision, "contract": facts(evaluation.contract),
    })  # fmt: skip


def file(run: Path, model: str) -> Path:
    """Where it is said."""
    return run / "disqualified" / f"{folder_name(model)}.json"


def disqualify(run: Path, model: str, who: str, reason: str, trace: str) -> None:
    """Say why nothing of a model can be trusted; `who`: its `identity`."""
    put(file(run, model), as_json({"model": model, "identity": who, "reason": reason, "trace": trace}))


def reason_against(run: Path, model: str, who: str) -> str | None:
    """Why a model may not go on, None where it may. What was said of another model of that name is removed."""
    path = file(run, model)
    try:
        said = json.loads(path.read_text())
        if said["identity"] == who:
            return f"{said['reason']} (found before; remove {path} to try the same model again)"
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    path.unlink(missing_ok=True)
    return None
