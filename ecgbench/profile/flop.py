"""FLOP that a network really executes, counted operator by operator, forward and backward; nothing
is silently free.

Rules, a multiply-add being two operations and everything counted from shapes:

- matrix products, convolutions and fused attention: 2 per multiply-add. The two gradients of a
  convolution cost what its forward costs,
  whatever its groups (torch's FlopCounterMode counts the weight gradient of a grouped one as if it
  had one group). The backward of fused attention computes the scores again: five products to the
  forward's two.
- Fourier transforms of length N: 5 N log2 N if complex, half of that if one side is real.
- everything else by the element of the operator's largest array: 1 for an arithmetic operator, an
  activation, a comparison or a reduction, more for fused ones (`RATES`); kernel size per result for
  pooling.
- views, copies, gathers, random numbers and new arrays: nothing.
- complex numbers: 4 times the products, 2 times everything else (6 per multiplication or division).

An operator without a rule whose result holds floating-point numbers, or which writes them into an
argument, is listed, and the count is then no count. Fused and compiled forms of what is made of
plain operators have none: count inside `plain_kernels`.
"""

import csv
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

with Path(__file__).with_name("operators.csv").open(newline="") as _file:
    RATES = {row["operator"]: int(row["flop_per_element"]) for row in csv.DictReader(_file)}
"""FLOP per element of the largest array of an operator and of its in-place form. 0: it moves
numbers, chooses among them or makes them up. Of a softmax maximum, difference, exponential, sum and
quotient; of a norm mean, difference, square, sum, scale and two of its affine map, twice that for
its gradients; of a variance the first four; of a recurrent cell, by the gate, sums, biases,
activation and its share of the new state.
"""

_MULTIPLIED = ("mul", "div", "reciprocal", "addcmul", "pow", "exp")
"""What multiplies complex numbers, or divides by them."""
_SOFTMAX = 6
"""Operations per score of fused attention beside its products: scaling and softmax; twice that
backward.
"""


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Recurrent networks, attention and encoder layers, and compiled functions, run as the plain
    operators that they are made of.

    A network whose gradients are counted must run its forward pass in here too.
    """
    mha = torch.backends.mha
    switches: list[tuple[Callable[[bool], object], bool]] = [
        (mha.set_fastpath_enabled, mha.get_fastpath_enabled()),
        # backends.mkldnn.flags sets TF32 too, and warns
        (torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled()),
        (torch._C._set_cudnn_enabled, torch._C._get_cudnn_enabled()),
    ]
    try:
        for switch, _ in switches:
            switch(False)
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for switch, before in switches:
            switch(before)


class FlopCounter(TorchDispatchMode):
    """Counts what runs inside `with FlopCounter() as counter:`; `unknown` are operators that no
    rule covers, with the number of their calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products = 0
        """FLOP of matrix products, convolutions and attention products."""
        self.rest = 0.0
        """FLOP of everything else."""
        self.unknown: Counter[str] = Counter()

    @property
    def total(self) -> float | None:
        """All FLOP; None where an operator has no rule."""
        return None if self.unknown else self.products + self.rest

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and count it; one that is composed of others (in inference mode they
        arrive whole) is decomposed first.
        """
        kwargs = kwargs or {}
        name = func._schema.name
        if name not in _RULES and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        self._count(func, name, args, kwargs, result)
        return result

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        arrays = _arrays((args, kwargs, result))
        space, _, plain = name.partition("::")
        if not any(t.is_floating_point() or t.is_complex() for t in arrays) or func.is_view:
            return
        schema = func._schema.arguments
        hard = any(t.is_complex() for t in arrays)
        largest = max(t.numel() for t in arrays)
        if name in _RULES:
            named = [kwargs.get(part.name, part.default_value) for part in schema[len(args) :]]
            products, rest = _RULES[name]([*args, *named], result)
            self.products += products * (4 if hard else 1)
            self.rest += rest
        elif (
            space == "aten"
            and (rate := RATES.get(plain, RATES.get(plain.removesuffix("_")))) is not None
        ):
            self.rest += rate * largest * (2 if hard else 1)
        elif space == "aten" and _pointwise(plain):
            multiplied = plain.removesuffix("_") in _MULTIPLIED
            self.rest += largest * (6 if multiplied else 2) if hard else largest
        elif any(
            t.is_floating_point() or t.is_complex()
            for t in _arrays((result, *_written(schema, args, kwargs)))
        ):
            self.unknown[name] += 1


@functools.cache
def _pointwise(plain: str) -> bool:
    """Whether torch tags an operator, or the one of which it is the in-place form, as working
    element by element.
    """
    forms = [getattr(torch.ops.aten, name, None) for name in (plain, plain.removesuffix("_"))]
    return any(
        torch.Tag.pointwise in getattr(form, overload).tags
        for form in forms
        if form is not None
        for overload in form.overloads()
    )


def _written(schema: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """Arguments that an operator writes to."""
    for at, part in enumerate(schema):
        if part.alias_info is not None and part.alias_info.is_write:
            yield args[at] if at < len(args) else kwargs.get(part.name)


def _arrays(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


Rule = Callable[[Any, Any], tuple[int, float]]
"""(all arguments of the schema, result) -> FLOP of products, FLOP of the rest."""


def _matrix(at: int) -> Rule:
    """The product of the arguments `at` and `at + 1`; what is added to it stands before them."""
    return lambda args, result: (
        2 * args[at].shape[-1] * result.numel(),
        result.numel() if at else 0.0,
    )


def _convolution(args: Any, result: Any) -> tuple[int, float]:
    (x, weight, bias), transposed = args[:3], args[6]
    return _moved(x if transposed else result, weight), 0.0 if bias is None else result.numel()


def _convolution_backward(args: Any, result: Any) -> tuple[int, float]:
    (grad, x, weight), transposed, (of_input, of_weight, of_bias) = args[:3], args[7], args[10]
    once = _moved(x if transposed else grad, weight)
    return once * (int(of_input) + int(of_weight)), grad.numel() if of_bias else 0.0


def _moved(steps: Tensor, weight: Tensor) -> int:
    """Each weight (the channels of its group only) meets every time step of every window once."""
    return 2 * steps.shape[0] * math.prod(steps.shape[2:]) * weight.numel()


def _attention(args: Any, result: Any) -> tuple[int, float]:
    q, k, v = args[:3]
    scores = q.numel() // q.shape[-1] * k.shape[-2]
    return 2 * scores * (q.shape[-1] + v.shape[-1]), _SOFTMAX * scores


def _attention_backward(args: Any, result: Any) -> tuple[int, float]:
    q, k, v = args[1:4]
    scores = q.numel() // q.shape[-1] * k.shape[-2]
    return 2 * scores * (3 * q.shape[-1] + 2 * v.shape[-1]), 2 * _SOFTMAX * scores


def _fourier(share: float, whole: Callable[[Any, Any], Tensor]) -> Rule:
    """`whole`: the array as long as the transform, the real one where one side is real."""

    def rule(args: Any, result: Any) -> tuple[int, float]:
        array = whole(args, result)
        return 0, share * 5 * array.numel() * math.log2(math.prod(array.shape[d] for d in args[1]))

    return rule


def _pool(args: Any, result: Any) -> tuple[int, float]:
    out = result[0] if isinstance(result, tuple) else result
    size = list(args[1])
    return 0, out.numel() * math.prod(size if len(size) > 1 else size * max(1, out.dim() - 2))


def _index_put(args: Any, result: Any) -> tuple[int, float]:
    return 0, args[2].numel() if args[3] else 0


_ATTENTION = [
    f"_scaled_dot_product_{kind}_attention{where}"
    for kind, where in (("flash", ""), ("flash", "_for_cpu"), ("efficient", ""), ("cudnn", ""))
]
_RULES: dict[str, Rule] = {
    f"aten::{name}": rule
    for rule, names in (
        (_matrix(0), ["mm", "bmm", "mv", "dot", "vdot"]),
        (_matrix(1), ["addmm", "baddbmm", "addmv", "addmm_", "baddbmm_", "addmv_"]),
        (_convolution, ["convolution", "_convolution", "convolution_overrideable"]),
        (_convolution_backward, ["convolution_backward"]),
        (_attention, _ATTENTION),
        (_attention_backward, [f"{name}_backward" for name in _ATTENTION]),
        (_fourier(0.5, lambda args, result: args[0]), ["_fft_r2c"]),
        (_fourier(0.5, lambda args, result: result), ["_fft_c2r"]),
        (_fourier(1.0, lambda args, result: result), ["_fft_c2c"]),
        (_pool, ["max_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices"]),
        (_pool, ["avg_pool1d", "avg_pool2d", "avg_pool3d"]),
        (_index_put, ["index_put", "index_put_", "_index_put_impl_"]),
    )
    for name in names
}
