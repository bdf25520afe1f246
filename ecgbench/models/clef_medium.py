"""CLEF: the network of ECGFounder for one lead, trained on pairs of one-lead strips of MIMIC-IV-ECG
(Nokia Bell Labs 2025).

Contrastive pairs are weighted by the difference of their patients' cardiovascular risk. Norms and
dropout are off, as in ECGFounder, and there is no layer after the mean over time. The network reads
one lead of any name: of several leads it gives the mean of their features. Of three sizes this is
M; `clef_small` is S, `clef_large` L. State-dict keys are those of the authors' files behind
`backbone.`.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ecgbench.cards.model import InputContract, ModelCard, Weights
from ecgbench.ecg.filters import Filter
from ecgbench.ecg.leads import LEADS
from ecgbench.layers import paper_flop
from ecgbench.layers.features import Features, demand_some
from ecgbench.models.ecgfounder import SHAPE, Net1D, Shape
from ecgbench.models.ecgfounder import paper_layers as layers_of_one_lead
from ecgbench.weights.load import loaded

FOLDER = "https://zenodo.org/records/17572734/files"
_LICENCE = "Clear BSD (code); the terms of the weights stand on their page at Zenodo"
_PAPER = InputContract(
    name="paper",
    fs=500,
    seconds=10,
    leads=LEADS,
    unit="mV",
    filter=Filter(kind="butterworth-filtfilt", low=0.67, high=40, where="window"),
    normalisation="standardise-per-lead",
    scope="window",
    fill="after",
    policy="native",
    absent="nothing: each measured lead is read by itself",
    short="edge",
)

CARD = ModelCard(
    title="CLEF M",
    summary="ECGFounder's network for one lead of any name, contrastive with risk scores",
    paper=(
        "Shu, Charlton, Kawsar, Hernesniemi and Malekzadeh, CLEF: Clinically-Guided Contrastive "
        "Learning for Electrocardiogram Foundation Models, arXiv:2512.02180 (2025)"
    ),
    origin="github.com/Nokia-Bell-Labs/ecg-foundation-model at 0a1156e",
    licence=_LICENCE,
    parameters=30_654_000,
    dim=1024,
    contracts=(
        _PAPER,
        replace(_PAPER, name="authors-ptbxl", filter=None, resampler="fft"),
    ),
    native=True,
    groups={
        "early": ("first_conv.", "first_bn.", "stage_list.0.", "stage_list.1.", "stage_list.2."),
        "late": tuple(f"stage_list.{i}." for i in range(3, 7)),
    },
    weights=(
        Weights(
            name="released",
            url=f"{FOLDER}/clef_medium.ckpt",
            file="clef_medium.ckpt",
            sha256=None,
            licence=_LICENCE,
            container=("state_dict",),
            prefix="backbone.",
            drop=("predictor.", "backbone_target.", "backbone_k.", "queue", "queue_ptr"),
        ),
    ),
    objective="contrastive pairs of one-lead strips, weighted by cardiovascular risk",
    corpora=("MIMIC-IV-ECG",),
    choices={
        "several leads": "the mean of the features of the measured leads, which is as wide for any "
        "number of them. The authors always feed one lead",
        "which lead": "any; the authors draw one of twelve in pre-training. For PTB-XL their code "
        "takes lead II where their abstract says lead I",
        "filter": "paper: as in pre-training, from the transfer function, which the weights were "
        "trained on; authors-ptbxl: none, as their code has it for PTB-XL",
        "standardisation": "each lead of a window by its own mean and deviation, as in "
        "pre-training. For PTB-XL the authors take one mean and one deviation of all training "
        "samples, which no contract here does",
        "missing samples": "an error, where the authors interpolate between valid samples",
        "a constant lead": "is not measured, where the authors feed zeros",
        "resampling": "paper: polyphase; authors-ptbxl: by FFT, as theirs for PTB-XL",
        "sequence": "the mean over the measured leads of what the last stage gives",
        "groups": "ours: early are stem and stages 0-2, late the others. Batch norms count in "
        "them, but no gradient reaches them",
    },
)


class Clef(Net1D):
    """Net1D of one input, read lead by lead."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(1, shape)

    def forward(self, signal: Tensor, measured: Tensor) -> Features:
        """signal (batch, 12, time) at 500 Hz, scaled as the contract says, of any length; measured
        (batch, 12) bool: other rows are not touched. ValueError for another shape, and for a window
        without a measured lead.
        """
        demand_some("CLEF", signal, measured, len(LEADS))
        some = self.embed_leads(signal[measured])
        tokens = some.new_full((*measured.shape, *some.shape[1:]), torch.nan)
        tokens[measured] = some
        return self.encode(tokens, measured)

    def embed_leads(self, signal: Tensor) -> Tensor:
        """(..., time) -> (..., token, dim): each lead alone, a token for every 2 x 2^stages samples
        begun.
        """
        x = self.tokens(signal.reshape(-1, 1, signal.shape[-1])).transpose(1, 2)
        return x.unflatten(0, signal.shape[:-1])

    def encode(self, tokens: Tensor, measured: Tensor) -> Features:
        """tokens (batch, 12, token, dim) of `embed_leads`, measured (batch, 12) -> their mean over
        the measured leads.
        """
        there = tokens.where(measured[..., None, None], 0)
        sequence = there.sum(1) / measured.sum(1)[:, None, None]
        return Features(sequence, sequence.mean(1))


def build(weights: str | Path | None = None) -> Clef:
    """The encoder in torch's training mode, with random weights or those of a file or name (see
    `load.load`).
    """
    return loaded(Clef(SHAPE), weights, CARD)


def paper_layers(network: nn.Module, samples: int, leads: int) -> paper_flop.Layout:
    """The layers by the paper's FLOP count: those of one lead for each of `leads`."""
    one = layers_of_one_lead(network, samples, 1)
    every = tuple(replace(layer, results=layer.results * leads) for layer in one.layers)
    return replace(one, layers=every)
