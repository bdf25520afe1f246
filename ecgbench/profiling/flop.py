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
  activation, a comparison or a
  reduction, more for fused ones (`RATES`); kernel size per result for pooling; 2 per neighbour and
  result for interpolation; log2 n for each of n sorted numbers.
- views, copies, gathers, random numbers and new arrays: nothing.
- complex numbers: 4 times the products, 2 times everything else (6 per multiplication or division).

An operator without a rule whose result holds floating-point numbers, or which writes them into an
argument, is listed, and the count is then no count. While it counts, fused and compiled forms of
what is made of plain operators are switched off (`plain_kernels`).
"""

import csv
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

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
_NEIGHBOURS = {
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
}
"""Of which an interpolated number is made."""


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
    rule covers, with their calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products = 0
        """FLOP of matrix products, convolutions and attention products."""
        self.rest = 0.0
        """FLOP of everything else."""
        self.unknown: Counter[str] = Counter()
        self._plain = ExitStack()
        self._depth = 0

    @property
    def total(self) -> float | None:
        """All FLOP; None where an operator has no rule."""
        return None if self.unknown else self.products + self.rest

    def __enter__(self) -> "FlopCounter":
        """Begin to count, or go on inside an operator that is taken apart."""
        if not self._depth:
            self._plain.enter_context(plain_kernels())
        self._depth += 1
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop."""
        super().__exit__(*raised)
        self._depth -= 1
        if not self._depth:
            self._plain.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and book it; one that is composed of others (in inference mode they
        arrive whole) is taken apart.
        """
        kwargs = kwargs or {}
        name = func._schema.name
        if name not in _RULES and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        self._book(func, name, args, kwargs, result)
        return result

    def _book(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        arrays = [*_arrays((args, kwargs)), *_arrays(result)]
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
            for t in _arrays([result, *_written(schema, args, kwargs)])
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


def _arrays(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _arrays(part)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


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


def _sum_of_products(args: Any, result: Any) -> tuple[int, float]:
    """`addbmm`: the products of a batch, summed, and what is added to them."""
    return 2 * args[1].shape[0] * args[1].shape[-1] * result.numel(), result.numel()


def _trilinear(args: Any, result: Any) -> tuple[int, float]:
    """nn.Bilinear: the first two factors with their common sum, then the third."""
    factors, spread, summed = args[:3], args[3:6], args[6]
    shapes = []
    for factor, dims in zip(factors, spread):
        shape = list(factor.shape)
        for d in dims:  # in rising order
            shape.insert(d, 1)
        shapes.append(shape)
    first = torch.broadcast_shapes(*shapes[:2])
    product = [1 if d in summed and d in spread[2] else n for d, n in enumerate(first)]
    return 2 * math.prod(first) + 2 * math.prod(torch.broadcast_shapes(product, shapes[2])), 0.0


def _bag(args: Any, result: Any) -> tuple[int, float]:
    """Sums of rows of a table, or their gradients: the table or the gradient comes first, then the
    row numbers.
    """
    return 0, args[1].numel() * args[0].shape[-1]


def _interpolated(neighbours: int, backward: bool) -> Rule:
    return lambda args, result: (0, 2 * neighbours * (args[0] if backward else result).numel())


def _sort(args: Any, result: Any) -> tuple[int, float]:
    x = args[0]
    dim = next(
        value for value in args[1:] if isinstance(value, int) and not isinstance(value, bool)
    )
    return 0, x.numel() * math.log2(max(1, x.shape[dim])) if x.dim() else 0.0


_ATTENTION = [
    f"_scaled_dot_product_{kind}"
    for kind in (
        "flash_attention",
        "flash_attention_for_cpu",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
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
        (_sum_of_products, ["addbmm", "addbmm_"]),
        (lambda args, result: (2 * result.numel(), 0.0), ["addr", "addr_"]),
        (_trilinear, ["_trilinear"]),
        (_bag, ["_embedding_bag", "_embedding_bag_forward_only", "_embedding_bag_backward"]),
        (_sort, ["sort"]),
        *((_interpolated(n, backward=False), [name]) for name, n in _NEIGHBOURS.items()),
        *(
            (_interpolated(n, backward=True), [f"{name}_backward"])
            for name, n in _NEIGHBOURS.items()
        ),
    )
    for name in names
}
