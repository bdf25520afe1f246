"""What a model or a policy may set for its whole process, as it was before."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def restored() -> Iterator[None]:
    """torch's kind of number, threads and gradients are afterwards what they were before."""
    kind, threads, learns = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
    )
    try:
        yield
    finally:
        torch.set_default_dtype(kind)
        torch.set_grad_enabled(learns)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
