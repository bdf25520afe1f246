"""NAME: two strided convolutions over twelve leads at 100 Hz, 5 s at a time."""

from pathlib import Path

from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard
from ecgbench.ecg.leads import LEADS
from ecgbench.models import Features
from ecgbench.weights.load import loaded

CARD = ModelCard(
    title="NAME",  # as printed in tables
    summary="two strided convolutions",
    paper="none",  # citation with DOI or arXiv number
    origin="this file",  # the code that it follows, with its commit
    licence="MIT",  # of code and weights
    contracts=(
        InputContract(
            name="paper",
            fs=100,  # Hz: recordings are resampled to it
            seconds=5,  # recordings are cut into windows of this length
            leads=LEADS,  # what the network reads, in this order
            unit="mV",
            filter=None,  # or Filter(kind="firwin-filtfilt", low=0.05, high=47.0)
            normalisation="standardise-per-lead",  # or none, minmax-per-lead, standardise-record
            fill="before",  # missing leads are filled before the normalisation
            policy="zero",  # how they are filled, unless --policy says otherwise
            absent="0 mV, and so 0",
        ),
    ),
    corpora=(),  # what it was pre-trained on: ("PTB-XL",); a report warns where that is tested
    native=False,  # True for a network that reads any subset of its leads
    # for fine-tuning only: beginnings of parameter names, each parameter in exactly one group
    # groups={"early": ("first.",), "late": ("second.",)},
)


class Network(nn.Module):
    """(batch, 12, 500) to 64 features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(12, 32, kernel_size=10, stride=5)
        self.second = nn.Conv1d(32, 64, kernel_size=10, stride=5)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, 500) float32; measured (batch, 12) bool: which leads are real.

        Where a policy filled the missing leads, `measured` is True throughout. Under the policy
        `native` rows that were not measured hold NaN: take signal[measured] before you compute.
        """
        x = self.second(self.first(signal).relu()).relu().transpose(1, 2)
        return Features(sequence=x, pooled=x.mean(1))


def build(weights: str | Path | None = None) -> Network:
    """The network with random weights, or those of a file: all of its tensors, or BadWeights. The
    container and the prefix of a usual checkpoint are found, and a head in it is left out.
    """
    return loaded(Network(), weights, CARD)
