"""Recordings of a task with some of their leads, for torch."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ecgbench.cards.dataset import Task
from ecgbench.data.copy import Copy
from ecgbench.ecg.leads import bits_to_mask
from ecgbench.errors import BadSetting
from ecgbench.stats.known import UNKNOWN


class Recordings(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Recordings with their labels: of each (signal, measured, target).

    signal (12, time) float32, mV at the rate at which it is stored, leads in clinical order, NaN
    in those that are hidden or that it does not have; measured (12,) bool, which are not NaN;
    target (label,) float32: 1, 0, or NaN where it is not known. So `signal[measured]` are the
    measured leads, and `signal` with `fs` is what `ecgbench.api.Model.embed` takes. Recordings of
    different length make no batch by themselves: cut them first.
    """

    def __init__(self, copy: Copy, table: pd.DataFrame, task: Task) -> None:
        """Of rows of the index of `copy`; `available`: bit mask of the leads to be measured."""
        self._copy, self._masks = copy, bits_to_mask(table["available"].to_numpy())
        values = table[task.columns].to_numpy(np.float32)
        self._targets = np.where(values == UNKNOWN, np.float32(np.nan), values)
        self.labels: list[str] = list(task.labels)
        self.records: list[str] = table["record"].astype(str).tolist()
        self.patients: list[str] = table["patient"].astype(str).tolist()
        self.unit = copy.unit
        """Of the signals: "mV", or "standardised" where a source cannot give mV."""
        self.rates = table["fs"].to_numpy(float)
        """(record,) Hz."""

    @property
    def fs(self) -> float:
        """Hz, of all records; BadSetting where they differ, as `rates` says."""
        first = float(self.rates[0])
        if (self.rates != first).any():
            raise BadSetting(f"{self._copy.name}: records have different rates; see `rates`")
        return first

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, at: int) -> tuple[Tensor, Tensor, Tensor]:
        signal = self._copy.recording(self.records[at]).rows
        signal[~self._masks[at]] = np.nan
        measured, target = torch.tensor(self._masks[at]), torch.tensor(self._targets[at])
        return torch.from_numpy(signal), measured, target
