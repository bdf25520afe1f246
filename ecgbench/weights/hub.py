"""Networks in the layout of the Hugging Face Hub: `model.safetensors`, `config.json` and a model
card, in a folder or a repository.

The files are those of huggingface_hub's PyTorchModelHubMixin, but not its code: as a base class it
would be imported with every network, and where a repository holds no safetensors it reads a pickle.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import nn

import ecgbench
from ecgbench.cards.checked import facts
from ecgbench.cards.model import ModelCard
from ecgbench.core.files import as_json, put, sha256_of
from ecgbench.data.fetch import fetch
from ecgbench.data.fetch.resumed import DownloadError
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import shipped

TENSORS, CONFIG, PAGE = "model.safetensors", "config.json", "README.md"
HUB = "https://huggingface.co/"
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def file(where: str | Path, revision: str | None, card: ModelCard) -> Path | None:
    """The file of tensors for the network with this card: in a folder that `save` wrote or that
    holds a file of the card, or in a repository of the Hub (owner/name); None where it is none of
    them, or a name on the card.

    BadSetting: there is none, or it cannot be downloaded. BadWeights: its configuration is of
    another network.
    """
    if str(where) in {w.name for w in card.weights}:  # whatever lies here under that name
        return None
    if Path(where).expanduser().is_dir():
        for layout in card.weights:  # its hash says what it is, so that no configuration need
            if sha256_of(found := Path(where).expanduser() / layout.file) == layout.sha256:
                return found
        files = [Path(where).expanduser() / name for name in (CONFIG, TENSORS)]
        missing = [path.name for path in files if not path.is_file()]
        if missing:
            raise BadSetting(
                f"{where} holds no {missing[0]}; give a folder that save_pretrained has written"
            )
    elif _REPOSITORY.fullmatch(str(where)) and not Path(where).expanduser().is_file():
        files = []
        for name in (CONFIG, TENSORS):
            try:
                files.append(downloaded(str(where), name, revision))
            except DownloadError as error:
                raise BadSetting(
                    f"{where} is not a folder here, and its {name} could not be downloaded "
                    f"({error}); give a folder or another repository"
                ) from None
    else:
        return None
    config, tensors = files
    try:
        network = json.loads(config.read_text(encoding="utf-8"))["network"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadWeights(
            f"{where}: {CONFIG} names no network; give what save_pretrained has written"
        ) from None
    if network != card.title:
        raise BadWeights(
            f"{where} holds weights of {str(network)[:80]!r}, not of {card.title}; give another "
            f"folder or repository"
        )
    return tensors


def save_to(folder: Path, network: nn.Module, card: ModelCard) -> None:
    """Write tensors, configuration and a model card into `folder`; a card that is there stays.
    WriteError.
    """
    tensors = {
        name: t.detach().cpu().contiguous().clone() for name, t in network.state_dict().items()
    }
    fed = {k: v for k, v in facts(card.contracts[0]).items() if v is not None}
    config = {
        "network": card.title,
        "library": f"ecgbench {ecgbench.__version__}",
        "parameters": card.parameters,
        "dim": card.dim,
    }
    put(folder / CONFIG, as_json({**config, "input": fed}))
    # one entry: several would be written in an order of chance
    put(folder / TENSORS, save(tensors, {"format": "pt"}))
    if not (folder / PAGE).exists():
        put(folder / PAGE, _page(network, card))


def _holds(file: Path, network: nn.Module) -> bool:
    """Whether the tensors of a file are those of a network, whatever their precision."""
    own = {name: t.cpu() for name, t in network.state_dict().items()}
    stored = load(file.read_bytes())
    return stored.keys() == own.keys() and all(
        torch.equal(t.to(own[name].dtype), own[name]) for name, t in stored.items()
    )


def downloaded(repository: str, name: str, revision: str | None = None) -> Path:
    """A file of a repository of the Hub, in huggingface_hub's cache; DownloadError."""
    import huggingface_hub

    options: dict[str, Any] = {
        "revision": revision,
        "endpoint": _endpoint(),
        "library_name": "ecgbench",
    }
    try:
        return Path(huggingface_hub.hf_hub_download(repository, name, **options))
    except Exception as error:  # a library and what lies under it may fail in any way
        address = f"{HUB}{repository}/resolve/main/{TENSORS}"
        raise DownloadError(fetch.reason(error, address)) from None


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _page(network: nn.Module, card: ModelCard) -> str:
    """The model card of weights that are shipped; of others, what is known of any."""
    c = card.contracts[0]
    head = "---\nlibrary_name: ecgbench\ntags:\n- ecg\n- electrocardiogram\n---\n"
    for weights in (w for w in card.weights if shipped.is_shipped(w.url)):
        file = shipped.path(weights)
        page = file and file.with_name(PAGE)
        if file and page and page.is_file() and _holds(file, network):
            return (
                f"{head}{page.read_text(encoding='utf-8')}\n---\n\nWritten by ecgbench "
                f"{ecgbench.__version__} from `{weights.file}`, with the same values; links lead "
                f"to files of the repository of ecgbench.\n"
            )
    return (
        f"{head}# {card.title}\n\n{card.summary[:1].upper()}{card.summary[1:]}. {card.paper}.\n\n"
        f"Weights written by ecgbench {ecgbench.__version__}, which knows nothing of their "
        f"training and has not scored them. Say here on which recordings they were trained, how "
        f"they score, and under which licence they are published.\n\n"
        f"Input: windows of {c.seconds:g} s at {c.fs:g} Hz in {c.unit}, prepared as `{CONFIG}` "
        f"says.\n"
    )
