"""What is computed from a frozen network's parameters, kept as long as they stay as they were."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class CachedTensors:
    """Tensors that follow from parameters, computed again when a parameter is another tensor or was
    written to.

    Kept for frozen parameters without gradients only: an optimiser's step, `load_state_dict`, `to`
    and every in-place operation that torch counts are noticed (of batch norms see `FoldedNorm`). A
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


class FoldedNorm:
    """A batch norm as a scale and a shift that the convolution before it takes over, in evaluation.

    The convolution has no bias. Neither module is registered here, so the names in a state dict
    stay those of the network.
    """

    def __init__(
        self,
        conv: nn.Conv1d,
        norm: nn.BatchNorm1d,
        lay_out: Callable[[Tensor], Tensor] = Tensor.contiguous,
    ) -> None:
        """lay_out: the weight (out, in, kernel) as the network multiplies by it."""
        self.conv, self.norm, self._lay_out, self._kept = conv, norm, lay_out, CachedTensors()

    def __call__(self) -> list[Tensor]:
        """Weight, laid out, and bias (out,) of convolution and norm together."""
        return self._kept(self._sources(), self._fold)

    def _sources(self) -> list[Tensor]:
        n = self.norm
        # on a CPU torch moves the statistics without counting it as a change, but it counts the
        # batches
        statistics = (n.running_mean, n.running_var, n.num_batches_tracked)
        return [self.conv.weight, n.weight, n.bias, *statistics]  # type: ignore[list-item]

    def _fold(self) -> list[Tensor]:
        weight, gain, shift, mean, variance, _ = self._sources()
        scale = gain * torch.rsqrt(variance + self.norm.eps)
        return [self._lay_out(weight * scale[:, None, None]), shift - mean * scale]
