"""What is computed from a frozen network's parameters, kept as long as they stay as they were."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class CachedTensors:
    """Tensors that follow from parameters, computed again when a parameter is another tensor or was
    written to.

    Kept for frozen parameters without gradients only: an optimiser's step, `load_state_dict`, `to`
    and every in-place operation that torch counts are noticed (of batch norms see `statistics`). A
    write through `.data` to a frozen parameter is not.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[Tensor, int, int]] = []
        self._kept: list[Tensor] = []

    def __call__(
        self, parameters: Sequence[Tensor], compute: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        """What `compute` returns for `parameters`."""
        if torch.is_grad_enabled() or any(p.requires_grad or p.is_inference() for p in parameters):
            return compute()
        if not self._same(parameters):
            with torch.inference_mode(False), torch.no_grad():
                self._kept = compute()
            self._seen = [(p, p.data_ptr(), p._version) for p in parameters]
        return self._kept

    def _same(self, parameters: Sequence[Tensor]) -> bool:
        return len(self._seen) == len(parameters) and all(
            p is seen and p.data_ptr() == where and p._version == version
            for p, (seen, where, version) in zip(parameters, self._seen)
        )


def statistics(norm: nn.BatchNorm1d) -> list[Tensor]:
    """weight, bias, running mean, running variance and number of batches of a batch norm.

    The last one for `CachedTensors`: on a CPU torch moves the statistics without counting it as a
    change, but it counts the batches.
    """
    tensors = [
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
    ]
    assert all(isinstance(tensor, Tensor) for tensor in tensors)
    return tensors  # type: ignore[return-value]
