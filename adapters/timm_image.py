"""Timm image: a small network of timm on an image of one's own, trained from scratch.

`--models timm:NAME` shows any network of timm one image with the leads below one another. Here each
lead has a channel of its own, as a colour has in a photograph: a kernel sees all leads at the same
time and frequency. The channel is the lead's spectrogram: 32 bands of 1.6 Hz, a column every 80 ms.

    ecgbench run --models timm_image,timm:resnet18 --weights random --protocol finetune-modern

For another image change `image`; for another network change `NETWORK`, and on the card what
`ecgbench check model timm_image` then says: `parameters`, `dim` and the names in `groups`.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.layers.torchvision_operators import import_timm
from ecgbench.models import Features
from ecgbench.weights import load

NETWORK = "resnet10t"
FS = 100
"""Hz: of the QRS little lies above the 50 Hz that this leaves."""
WINDOW, HOP = 64, 8
"""Samples of a spectrum, and between two of them."""

CARD = ModelCard(
    title="Timm image",
    summary="ResNet-10 of timm; the spectrograms of the twelve leads are its channels",
    paper="none",
    origin="this project; the network is timm's",
    licence="MIT; timm: Apache-2.0",
    parameters=4_924_432,
    dim=512,
    contracts=(
        InputContract(
            name="paper",
            fs=FS,
            seconds=10,
            leads=LEADS,
            unit="mV",
            filter=Filter(kind="butterworth-sosfiltfilt", low=0.67, high=40),
            # after it a lead that was not measured is 0, and so is its spectrogram
            normalisation="standardise-record",
            fill="after",
            policy="zero",
            absent="0, the mean of the measured leads, which were standardised without it",
        ),
    ),
    native=False,
    groups={
        "early": ("net.conv1.", "net.bn1.", "net.layer1.", "net.layer2."),
        "late": ("net.layer3.", "net.layer4."),
    },
)


def image(signal: Tensor) -> Tensor:
    """signal (batch, 12, time) at `FS` Hz -> (batch, 12, 32, column): log(1 + power)."""
    window = torch.hann_window(WINDOW, device=signal.device)
    rows = signal.flatten(0, 1).float()
    spectra = torch.stft(rows, WINDOW, HOP, window=window, return_complex=True)
    return spectra[:, 1:].abs().square().log1p().unflatten(0, signal.shape[:2])


class TimmImage(nn.Module):
    """Twelve filled leads to the pooled feature of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = import_timm().create_model(NETWORK, in_chans=len(LEADS), num_classes=0)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time), measured (batch, 12) bool, all True: other rows are filled."""
        pooled = self.net(image(signal))
        return Features(sequence=pooled[:, None], pooled=pooled)

    def group_matcher(self, coarse: bool = False) -> dict[str, str]:
        """The layers of `--protocol finetune-modern`, from the input up: group -> pattern."""
        return {"stem": r"^net\.(conv1|bn1)", "blocks": r"^net\.layer(\d+)"}


def build(weights: str | Path | None = None) -> TimmImage:
    """The network with random weights, or with those of a file that a training here has written."""
    return load.loaded(TimmImage(), weights, CARD)
