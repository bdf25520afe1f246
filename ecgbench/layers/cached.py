"""What is computed from a frozen network's parameters, kept as long as they stay as they were."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class CachedTensors:
    """Tensors that follow from parameters, computed again when a parameter is another tensor or was
    written to.

    Kept for frozen parameters without gradients only: an optimiser's step, `load_state_dict`, `to`
    and every in-place operation that torch counts are noticed. A
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
