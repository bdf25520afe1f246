"""Any network of timm (PyTorch Image Models) on the leads as an image: `timm:resnet18`,
`timm:vit_base_patch16_224.augreg_in21k`, `timm:resnet18@spectrogram`.

They show how far a network comes that was made for photographs. The image has one channel; timm
adds up the three channels of published weights.

- `timm:NAME`: the twelve leads below one another, time to the right. A network that takes any size
  sees 10 s as 32 x 1024, so that the QRS keeps the 100 Hz that it needs. One of a fixed size sees
  2.5 s at that size: 10 s on 224 columns would be 22 Hz.
- `timm:NAME@spectrogram`: of each lead 16 bands of 3.1 Hz, one lead below the other, and a column
  every 0.08 s, as log(1 + power): rate and width as places in the image, without the phase.

The record is standardised over its measured leads: published weights expect a mean of 0 and a
standard deviation of 1. A lead that was not measured is 0 then, the mean.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.core.registry import plain
from ecgbench.core.text import one_line
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.errors import BadSetting, BadWeights, UnknownName
from ecgbench.layers.features import Features, demand_all
from ecgbench.layers.torchvision_operators import import_timm
from ecgbench.weights.hub import HUB, TENSORS
from ecgbench.weights.load import loaded
from ecgbench.weights.usual import Search

FS = 100
"""Hz."""
NOT_COMMERCIAL = ("-nc", "noncommercial", "amlr", "seer")
"""Parts of the names of licences that forbid commercial use (amlr: Apple, research only)."""
SPECTROGRAM = "spectrogram"
WINDOW, HOP = 32, 8
"""Samples of a spectrum, and between two of them."""
IMAGE, STACKED = (32, 1024), (192, 128)
"""Height and width of the image and of the spectrogram for networks that take any size: multiples
of 32, by which most of them divide.
"""


def version() -> str:
    """What the networks come from, for keys: "timm 1.0.31"."""
    return f"timm {import_timm().__version__}"


@cache
def spelled(name: str) -> str:
    """The proper spelling of a network's name, with its image; BadSetting without timm,
    UnknownName with the nearest names.
    """
    (network, _, image), timm = name.partition("@"), import_timm()
    known = [*timm.list_models(), *timm.list_pretrained()]
    found = next((n for n in known if plain(n) == plain(network)), None)
    if found is None:
        raise UnknownName("model", f"timm:{network}", [f"timm:{n}" for n in known])
    if plain(image) not in ("", SPECTROGRAM):
        raise UnknownName("image", image, [SPECTROGRAM], f"Or leave it out: timm:{found}")
    return f"timm:{found}@{SPECTROGRAM}" if image else f"timm:{found}"


class LeadImage(nn.Module):
    """A network of timm without its classifier, on the image of twelve filled leads."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, _, image = name.partition("@")
        self.spectrogram = bool(image)
        self.net = import_timm().create_model(self.name, in_chans=1, num_classes=0)
        self.about = self.net.pretrained_cfg
        self.fixed = bool(self.about.get("fixed_input_size"))
        own = tuple(self.about["input_size"][-2:])
        self.size = own if self.fixed else STACKED if self.spectrogram else IMAGE
        """Height and width of what the network reads."""
        if not hasattr(self.net, "group_matcher"):
            self.group_matcher = None  # type: ignore[assignment,method-assign]

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time) standardised at 100 Hz, measured (batch, 12) bool, all True ->
        one token, the network's pooled feature. ValueError for another shape.
        """
        demand_all(f"timm:{self.name}", signal, measured, len(LEADS))
        image = (self._bands(signal) if self.spectrogram else signal)[:, None]
        pooled = self.net(F.interpolate(image, self.size, mode="bilinear"))
        return Features(pooled[:, None], pooled)

    def published(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tensors of a file under this network's names, wherever they are in it, without its
        classifier. One for images of three channels is loaded as timm does, classifier included,
        so that every tensor has its place; else BadWeights.
        """
        found = Search(self.net, tensors, ordered=False)
        if (rival := found.rival()) is not None:
            raise BadWeights(
                f"the file for timm:{self.name} holds two sets of weights that fit, under "
                f"{found.start!r} and {rival!r}; save the one that is meant alone"
            )
        inside = found.inside()
        if all(n in inside and inside[n].shape == t.shape for n, t in found.wanted.items()):
            return {f"net.{name}": tensor for name, tensor in inside.items()}
        state = {n.removeprefix(found.start): t for n, t in found.flat.items()}
        classifier = self.about.get("classifier") or ""
        first = classifier if isinstance(classifier, str) else classifier[0]
        labels = len(state.get(f"{first}.weight", ()))
        how = {"state_dict": state, "custom_load": False, "num_classes": labels}
        create, size = import_timm().create_model, {"in_chans": 1, "num_classes": labels}
        try:
            with _all_tensors():
                whole = create(self.name, pretrained=True, pretrained_cfg_overlay=how, **size)
            whole.reset_classifier(0)
        except Exception as error:  # of a file that may hold anything
            raise BadWeights(
                f"not a file of timm:{self.name} ({one_line(error)}); or pass --weights random"
            ) from None
        return {f"net.{name}": tensor for name, tensor in whole.state_dict().items()}

    def group_matcher(self, coarse: bool = False) -> Callable[[str], int]:
        """Name of a parameter -> number of its layer, as timm groups them (for layer decay); None
        in place of this method where a network of timm has none.
        """
        group = import_timm().models.group_parameters
        layers = group(self.net, self.net.group_matcher(coarse=coarse), reverse=True)
        return lambda name: int(layers[name.removeprefix("net.")])

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters that timm's recipes leave without weight decay."""
        return {f"net.{name}" for name in getattr(self.net, "no_weight_decay", set)()}

    def _bands(self, signal: Tensor) -> Tensor:
        """(batch, 12, time) -> (batch, 12 * 16, frame): log(1 + power) of each lead's bands."""
        rows, window = signal.flatten(0, 1).float(), torch.hann_window(WINDOW, device=signal.device)
        spectra = torch.stft(rows, WINDOW, HOP, window=window, return_complex=True)
        bands = spectra[:, 1:].abs().square().log1p()
        return bands.reshape(len(signal), -1, bands.shape[-1]).to(signal.dtype)


@contextmanager
def _all_tensors() -> Iterator[None]:
    """Inside, whatever is loaded fills a network, or RuntimeError: of some networks timm loads any
    file, and what it lacks stays random.
    """
    usual = nn.Module.load_state_dict

    def whole(module: nn.Module, *given: Any, **options: Any) -> Any:
        found = usual(module, *given, **options)
        if found.missing_keys:
            raise RuntimeError(f"{len(found.missing_keys)} missing: {found.missing_keys[0]}, ...")
        return found

    with patch.object(nn.Module, "load_state_dict", whole):
        yield


@cache
def member(name: str) -> ModuleType:
    """The plug-in of one network: a module with CARD and `build`; BadSetting for a network that
    cannot read the image.
    """
    try:
        with torch.device("meta"):  # counted, not made
            network = LeadImage(name).eval()
            _, dim = network.net(torch.zeros(1, 1, *network.size)).shape
    except Exception as error:  # a network of timm may fail in any way
        raise BadSetting(
            f"timm:{name} cannot read an image of the leads ({one_line(error)}); try timm:resnet18"
        ) from None
    module = ModuleType(f"{__name__}:{name}", __doc__)
    module.__dict__.update(CARD=_card(name, network, dim), build=partial(build, name))
    return module


def build(name: str, weights: str | Path | None = None) -> LeadImage:
    """The network called `name` (`resnet18`, `resnet18@spectrogram`), with random weights by timm's
    initialisation or those of a file or name (see `load.load`).
    """
    return loaded(LeadImage(name), weights, member(name).CARD)


def _card(name: str, network: LeadImage, dim: int) -> ModelCard:
    licence = network.about.get("license") or "not stated by timm"
    names = [name for name, _ in network.named_parameters()]
    # net.layer1.0.conv1.weight -> net.layer1.0.
    short = (n if n.count(".") < 3 else ".".join(n.split(".")[:3]) + "." for n in names)
    parts = tuple(dict.fromkeys(short))
    size = f"{network.size[0]} x {network.size[1]}"
    image = f"{'a stacked spectrogram' if network.spectrogram else 'an image'} of {size}"
    return ModelCard(
        name=f"timm:{name}",
        title=f"timm {name}",
        summary=f"{type(network.net).__name__} of timm on the leads as {image}",
        paper="Wightman, PyTorch Image Models, doi:10.5281/zenodo.4414861",
        origin=version(),
        licence=f"Apache-2.0 (timm); weights: {licence}",
        parameters=sum(p.numel() for p in network.parameters()),
        dim=dim,
        contracts=(
            InputContract(
                name="paper",
                fs=FS,
                seconds=2.5 if network.fixed and not network.spectrogram else 10,
                leads=LEADS,
                unit="mV",
                # a wandering baseline would count in the standard deviation
                filter=Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40),
                normalisation="standardise-record",
                fill="after",
                policy="zero",
                absent="0, the mean of the measured leads, which were standardised without it",
            ),
        ),
        native=False,
        groups={"early": parts[: len(parts) // 2], "late": parts[len(parts) // 2 :]},
        weights=_weights(network.about, licence),
        corpora=(f"images ({network.about.get('tag') or 'as timm says'})",),
        choices={"groups": "early: the first half of its stages and blocks; late: the rest"},
    )


def _weights(about: Mapping[str, Any], licence: str) -> tuple[Weights, ...]:
    """What timm says of the published file: in a repository of the Hub, or at an address."""
    hub, url = about.get("hf_hub_id"), about.get("url")
    file = (about.get("hf_hub_filename") or TENSORS) if hub else str(url).rpartition("/")[2]
    where = f"{HUB}{hub}" if hub else str(url)
    terms = "no commercial use" if any(part in licence for part in NOT_COMMERCIAL) else ""
    one = Weights(name="released", url=where, file=file, sha256=None, licence=licence, terms=terms)
    return (one,) if hub or url else ()
