"""Models whose numbers cannot be trusted: one file each in the run folder, for later jobs and for
other runs in that folder.
"""

import json
from pathlib import Path

from ecgbench import models
from ecgbench.core.cards import facts
from ecgbench.core.cells import FEATURES, key
from ecgbench.core.files import as_json, put
from ecgbench.core.registry import folder_name
from ecgbench.evaluate.evaluation import Evaluation


def identity(evaluation: Evaluation) -> str:
    """Hash of the network, its weights, its contract and a plug-in's file: a changed model is tried
    again.
    """
    network = evaluation.network
    return key(
        {
            "model": network.name,
            "source": models.ROOM.source_hash(network.name),
            "features": FEATURES,
            "weights": network.sha256,
            "precision": network.precision,
            "contract": facts(evaluation.contract),
        }
    )


def file(run: Path, model: str) -> Path:
    """The file that disqualifies a model."""
    return run / "disqualified" / f"{folder_name(model)}.json"


def disqualify(run: Path, model: str, model_identity: str, reason: str, trace: str) -> None:
    """Store why no number of a model can be trusted; `model_identity`: see `identity`."""
    found = {"model": model, "identity": model_identity, "reason": reason, "trace": trace}
    put(file(run, model), as_json(found))


def reason_against(run: Path, model: str, model_identity: str) -> str | None:
    """Why a model is disqualified, None where it is not. The file of another model of that name is
    removed.
    """
    path = file(run, model)
    try:
        document = json.loads(path.read_text())
        if document["identity"] == model_identity:
            return f"{document['reason']} (found before; remove {path} to try the same model again)"
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    path.unlink(missing_ok=True)
    return None
