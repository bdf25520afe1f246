"""Codebooks: k-means over descriptors or latents of all leads, and the code of each segment by its
nearest centre.

Mini-batch k-means fed batch by batch (scikit-learn's partial_fit, as HuBERT-ECG does it), so that
descriptors are never kept; one codebook for all leads. Vectors are scaled to length 1 before the
fit and, by the same function, before every assignment: the public code of HuBERT-ECG fits scaled
vectors and assigns those that are not.

    books = fit(map(descriptor, windows), (50, 70, 100), seed=0, facts=descriptor.facts)
    codes = books[50].assign(descriptor(batch))          # on the batch's device, one matrix product
"""

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ecgbench.core.files import put
from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadSetting, BadWeights

FORMAT = 1
"""Raised by hand whenever the file, or what a code means, changes."""
NOTHING = -1
"""Code of a vector that holds NaN or infinity: a lead that was not measured."""
_SCORES = {"cpu": 2**18}
"""Scores (vectors x centres) that are in memory at once: on a CPU they stay in the cache."""


def normalised(vectors: Tensor) -> Tensor:
    """(..., dim) scaled to length 1 each; a vector of zeros stays zeros."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > 0, length, 1)


@dataclass(frozen=True, eq=False)
class Codebook:
    """Centres of one k-means, and the facts of how they were made."""

    centres: np.ndarray
    """(C, dim) float32, finite; means of vectors of length 1, themselves shorter."""
    facts: Mapping[str, Any]
    """Plain JSON: what was clustered (a descriptor's facts, or a network's), and `fit`: seed,
    batches, vectors, versions.
    """
    _tables: dict[torch.device, tuple[Tensor, Tensor]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        c = self.centres
        if c.ndim != 2 or not c.size or c.dtype != np.float32 or not np.isfinite(c).all():
            raise BadSetting(
                f"a codebook needs finite float32 centres (C, dim), not {c.shape} {c.dtype}; fit "
                f"it again"
            )

    @property
    def size(self) -> int:
        """C, the number of codes."""
        return len(self.centres)

    @property
    def dim(self) -> int:
        """Values of the vectors that it reads."""
        return int(self.centres.shape[1])

    @property
    def digest(self) -> str:
        """sha256 (hex) over format, shape, centres and facts."""
        head = json.dumps(
            {"format": FORMAT, "shape": self.centres.shape, "facts": self.facts},
            sort_keys=True,
            allow_nan=False,
        )
        return hashlib.sha256(
            head.encode() + b"\n" + np.ascontiguousarray(self.centres, "<f4").tobytes()
        ).hexdigest()

    @torch.no_grad()
    def assign(self, vectors: Tensor) -> Tensor:
        """Codes of vectors as the descriptor or network gives them: (..., dim) -> (...) int64 on
        the same device.

        The nearest centre of the scaled vector x is the largest x c - |c|^2 / 2: one matrix
        product, in float32 whatever autocast says. NOTHING (-1) for a vector that holds NaN or
        infinity. BadSetting for another dim.
        """
        if vectors.shape[-1] != self.dim:
            raise BadSetting(
                f"a codebook of vectors of {self.dim} values received {tuple(vectors.shape)}; use "
                f"the descriptor of its facts"
            )
        flat = vectors.reshape(-1, self.dim).float()
        with torch.autocast(flat.device.type, enabled=False):
            parts = [
                self._nearest(part)
                for part in flat.split(max(1, _SCORES.get(flat.device.type, 2**26) // self.size))
            ]
        return torch.cat(parts).view(vectors.shape[:-1])

    def _nearest(self, vectors: Tensor) -> Tensor:
        if vectors.device not in self._tables:
            exact = torch.from_numpy(self.centres.astype(np.float64))
            self._tables[vectors.device] = (
                exact.T.float().contiguous().to(vectors.device),
                (exact.square().sum(1) / -2).float().to(vectors.device),
            )
        across, offset = self._tables[vectors.device]
        best = torch.addmm(offset, normalised(vectors), across).max(1)
        return best.indices.masked_fill(best.values.isnan(), NOTHING)

    @torch.no_grad()
    def distances(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(vector, dim) -> codes, and squared distances of the scaled vectors to their centres (NaN
        without a code): (vector,) both.
        """
        codes = self.assign(vectors)
        centres = torch.from_numpy(self.centres).to(vectors.device)
        return codes, (normalised(vectors.float()) - centres[codes]).square().sum(1)

    def save(self, path: Path) -> Path:
        """Write an npz of the centres, the facts as JSON text and the digest; the same codebook
        gives the same bytes. WriteError.
        """
        out = io.BytesIO()
        np.savez(
            out,
            centres=self.centres,
            facts=np.array(json.dumps(self.facts, sort_keys=True)),
            digest=np.array(self.digest),
        )
        return put(path, out.getvalue())


def load(path: Path) -> Codebook:
    """A saved codebook. Nothing in the file is executed; BadWeights where it is missing, no
    codebook, or not as it was saved.
    """
    again = "copy it again, or fit the codebook again from its seed"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        if sorted(arrays) != ["centres", "digest", "facts"]:
            raise ValueError(f"it holds {', '.join(arrays)}")
        book = Codebook(arrays["centres"], json.loads(str(arrays["facts"])))
        expected = str(arrays["digest"])
    except Exception as error:  # a damaged file can make its reader fail in any way
        raise BadWeights(f"{path} cannot be read as a codebook ({error}); {again}") from error
    if book.digest != expected:
        raise BadWeights(
            f"{path} has changed since it was saved (sha256 {book.digest[:12]} is not "
            f"{expected[:12]}); {again}"
        )
    return book


def fit(
    stream: Iterable[Tensor], sizes: Sequence[int], *, seed: int, facts: Mapping[str, Any]
) -> dict[int, Codebook]:
    """One codebook per size, all from one pass over `stream`: size -> codebook.

    stream: batches of vectors (..., dim) on any device, of shuffled records; each
    goes into one step of every k-means and is then forgotten. The first one also seeds the centres
    (k-means++), so it must have as many vectors as the largest size; HuBERT-ECG's steps are of
    9,300 vectors, 100 records of 12 leads are 24,000. Options are HuBERT-ECG's (no reassignment of
    rare centres). The same seed, stream and sizes give the same bits on one machine. BadSetting: a
    batch that holds NaN or infinity, too few vectors, a size below 2 or named twice.
    """
    if not sizes or len(set(sizes)) != len(sizes) or min(sizes) < 2:
        raise BadSetting(
            f"codebooks of {', '.join(map(str, sizes)) or 'no'} codes: give different sizes of at "
            f"least 2, for example 50, 70, 100"
        )
    models: dict[int, Any] = {}
    batches = vectors = 0
    for batch in stream:
        x = _fed(batch, batches)
        models = models or {size: _kmeans(size, len(x), seed) for size in sizes}
        for model in models.values():
            model.partial_fit(x)
        batches, vectors = batches + 1, vectors + len(x)
    if not models:
        raise BadSetting(
            "no batch to fit a codebook on; give at least one, with more vectors than codes"
        )
    import sklearn

    fitted = {
        "seed": seed,
        "batches": batches,
        "vectors": vectors,
        "scale": "length 1",
        "scikit-learn": sklearn.__version__,
    }
    return {
        size: Codebook(
            model.cluster_centers_.astype(np.float32), {**facts, "fit": {"codes": size, **fitted}}
        )
        for size, model in models.items()
    }


def _fed(batch: Tensor, number: int) -> np.ndarray:
    """A batch as k-means receives it: (vector, dim) float32, each of length 1."""
    x = normalised(batch.detach().reshape(-1, batch.shape[-1]).float())
    if not x.isfinite().all():
        raise BadSetting(
            f"batch {number} for the codebook holds NaN or infinity; leave out leads that were "
            f"not measured"
        )
    return x.cpu().numpy()


def _kmeans(size: int, first: int, seed: int) -> Any:
    if first < size:
        raise BadSetting(
            f"the first batch has {first} vectors for a codebook of {size}; give larger batches "
            f"(100 records have 24,000)"
        )
    # a second to import; who only assigns codes needs none of it
    from sklearn.cluster import MiniBatchKMeans

    # batch_size lets k-means++ look at the whole first batch; compute_labels would assign every
    # batch once more
    return MiniBatchKMeans(
        size,
        random_state=seed_of("codebook", seed, size) % 2**32,
        batch_size=first,
        n_init=1,
        reassignment_ratio=0,
        compute_labels=False,
    )


def usage(counts: np.ndarray) -> tuple[int, float]:
    """Of how often each code was met, (C,): the number of codes in use, and their perplexity (exp
    of the entropy, 1 to C).

    >>> usage(np.array([5, 5, 0, 0]))
    (2, 2.0)
    """
    share = counts[counts > 0] / counts.sum()
    return len(share), float(np.exp(-(share * np.log(share)).sum()))


def elbow(books: Iterable[Codebook], stream: Iterable[Tensor]) -> pd.DataFrame:
    """How codebooks describe held-out vectors, one row each by size: the table of the elbow curve.

    stream: batches of vectors (..., dim), read once. Columns: codes; used and perplexity (see
    `usage`); sse, the summed squared distance to the nearest centre after scaling (scikit-learn's
    inertia over all batches, not of the last alone); inertia, sse per vector; vectors, those
    without NaN. BadSetting without vectors.
    """
    books = sorted(books, key=lambda b: b.size)
    counts = [np.zeros(book.size, np.int64) for book in books]
    sums = [0.0 for _ in books]
    for batch in stream:
        for i, book in enumerate(books):
            codes, distance = book.distances(batch.reshape(-1, batch.shape[-1]))
            there = codes != NOTHING
            counts[i] += np.bincount(codes[there].cpu().numpy(), minlength=book.size)
            sums[i] += float(distance[there].double().sum())
    rows = []
    for book, count, sse in zip(books, counts, sums):
        vectors = int(count.sum())
        if not vectors:
            raise BadSetting(
                "no held-out vector to measure codebooks on; give batches of another fold than "
                "the fit's"
            )
        used, perplexity = usage(count)
        rows.append((book.size, used, perplexity, sse, sse / vectors, vectors))
    return pd.DataFrame(rows, columns=["codes", "used", "perplexity", "sse", "inertia", "vectors"])
