"""Networks in the layout of the Hugging Face Hub: `model.safetensors`, `config.json` and a model
card, in a folder or a repository.

The files are those of huggingface_hub's PyTorchModelHubMixin, but not its code: as a base class it
would be imported with every network, and where a repository holds no safetensors it reads a pickle.
"""

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load, save
from torch import nn

import ecgbench
from ecgbench.core.cards import ModelCard, Weights, facts
from ecgbench.core.files import as_json, put
from ecgbench.data.fetch import fetch
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.weights import shipped

TENSORS, CONFIG, PAGE = "model.safetensors", "config.json", "README.md"
_WRITTEN = (
    "<!-- written by ecgbench: replaced when weights are saved again; remove this line to "
    "keep your own words -->"
)
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def file(where: str | Path, revision: str | None, card: ModelCard) -> Path:
    """The file of tensors for the network with this card: in a folder that `save` wrote, or in a
    repository of the Hub (owner/name).

    BadSetting: there is none, or it cannot be downloaded. BadWeights: its configuration is of
    another network.
    """
    if Path(where).expanduser().is_dir():
        files = [Path(where).expanduser() / name for name in (CONFIG, TENSORS)]
        lacking = [path.name for path in files if not path.is_file()]
        if lacking:
            raise BadSetting(
                f"{where} holds no {lacking[0]}; give a folder that save_pretrained has written"
            )
    elif _REPOSITORY.fullmatch(str(where)):
        files = [_downloaded(str(where), name, revision) for name in (CONFIG, TENSORS)]
    else:
        raise BadSetting(
            f"{where} is no folder, and no repository of the Hub (owner/name); give one of them, "
            f"or a name on the card"
        )
    config, tensors = files
    try:
        network = json.loads(config.read_text(encoding="utf-8"))["network"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadWeights(
            f"{where}: {CONFIG} names no network; give what save_pretrained or push_to_hub has "
            f"written"
        ) from None
    if network != card.title:
        raise BadWeights(
            f"{where} holds weights of {str(network)[:80]!r}, not of {card.title}; give another "
            f"folder or repository"
        )
    return tensors


def save_to(folder: Path, network: nn.Module, card: ModelCard) -> None:
    """Write tensors, configuration and a model card into `folder`; a card that a person wrote
    stays. WriteError.
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
    if not (folder / PAGE).exists() or _is_ours(folder / PAGE):
        put(folder / PAGE, _page(tensors, card))


def push(
    repository: str,
    network: nn.Module,
    card: ModelCard,
    *,
    private: bool | None,
    token: str | None,
    message: str,
) -> str:
    """Write `network` into a repository of the Hub, made where there is none, and return the
    address of the commit.

    A model card that a person wrote stays. BadSetting: the Hub cannot be reached or refuses.
    """
    import huggingface_hub

    with TemporaryDirectory(prefix="ecgbench-") as place:
        save_to(Path(place), network, card)
        try:
            api = huggingface_hub.HfApi(endpoint=_endpoint(), token=token, library_name="ecgbench")
            name = api.create_repo(repository, private=private, exist_ok=True).repo_id
            theirs = api.file_exists(name, PAGE) and not _is_ours(_downloaded(name, PAGE, None))
            left = [PAGE] if theirs else None
            return str(
                api.upload_folder(
                    repo_id=name, folder_path=place, commit_message=message, ignore_patterns=left
                )
            )
        except Exception as error:  # a library and what lies under it may fail in any way
            reason = fetch.reason(error, _address(repository))
            raise BadSetting(
                f"{repository} could not be written on the Hub ({reason}); log in (hf auth login) "
                f"and try again"
            ) from None


def _downloaded(repository: str, name: str, revision: str | None) -> Path:
    import huggingface_hub

    options: dict[str, Any] = {
        "revision": revision,
        "endpoint": _endpoint(),
        "library_name": "ecgbench",
    }
    try:
        return Path(huggingface_hub.hf_hub_download(repository, name, **options))
    except Exception as error:  # a library and what lies under it may fail in any way
        reason = fetch.reason(error, _address(repository))
        raise BadSetting(
            f"{repository} is not a folder here, and its {name} could not be downloaded "
            f"({reason}); give a folder or another repository"
        ) from None


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _address(repository: str) -> str:
    return f"https://huggingface.co/{repository}/resolve/main/{TENSORS}"


def _page(tensors: dict[str, torch.Tensor], card: ModelCard) -> str:
    """The model card, as far as anything is known: whose weights these are, where they are the
    shipped ones.
    """
    c = card.contracts[0]
    own = next((w for w in card.weights if _is_shipped(tensors, w)), None)
    origin = (
        f"Weights written by ecgbench {ecgbench.__version__}, which knows nothing of their "
        f"training and has not scored them. Say here on "
        "which recordings they were trained, how they score, and under which licence they are "
        "published."
        if own is None
        else f"The weights that come with ecgbench {ecgbench.__version__} as {own.url} (sha256 "
        f"{own.sha256}), here in float32. Licence: "
        f"{own.licence}. Pre-trained on: {', '.join(card.corpora)}. {PAGE} beside that file holds "
        f"their scores."
    )
    return (
        f"---\nlibrary_name: ecgbench\ntags:\n- ecg\n- electrocardiogram\n---\n{_WRITTEN}\n"
        f"# {card.title}\n\n{card.summary[:1].upper()}{card.summary[1:]}. "
        f"{card.paper}.\n\n{origin}\n\n"
        f"Input: windows of {c.seconds:g} s at {c.fs:g} Hz in {c.unit}, prepared as `{CONFIG}` "
        f"says.\n"
    )


def _is_shipped(tensors: dict[str, torch.Tensor], layout: Weights) -> bool:
    """Whether these are the very weights of a file that is shipped, and whole; a damaged one says
    nothing of others.
    """
    if not shipped.comes_along(layout.url):
        return False
    try:
        ours = load(shipped.content(layout))
    except (BadSetting, BadWeights):
        return False
    return all(
        name in ours and torch.equal(t, ours[name].to(t.dtype)) for name, t in tensors.items()
    )


def _is_ours(page: Path) -> bool:
    """Whether a model card was written here, and not by a person."""
    return _WRITTEN in page.read_text(encoding="utf-8", errors="replace")
