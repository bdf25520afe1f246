"""Codebooks: k-means over descriptors or latents of all leads, and the code of each segment by its
nearest centre, which a stage predicts.

Stage 1 describes segments of the signal (`descriptors.preset`), stage 2 the nodes of the network
that stage 1 made (`Nodes`). Descriptions are never stored: a batch goes into the codebooks, or is
given codes, and is forgotten.

Mini-batch k-means fed batch by batch (scikit-learn's partial_fit, as HuBERT-ECG does it); one
codebook for all leads. Vectors are scaled to length 1 before the
fit and, by the same function, before every assignment: the public code of HuBERT-ECG fits scaled
vectors and assigns those that are not.

    books = fit(map(descriptor, windows), (50, 70, 100), seed=0, facts=descriptor.facts)
    codes = books[50].assign(descriptor(batch))          # on the batch's device, one matrix product
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ecgbench.core.files import put
from ecgbench.core.keys import key
from ecgbench.core.seeds import seed_of
from ecgbench.errors import BadSetting, BadWeights
from ecgbench.layers.node_encoder import NodeEncoder
from ecgbench.pretrain.corpus import Corpus
from ecgbench.pretrain.objective import node_features
from ecgbench.weights.load import digest

FORMAT = 1
"""Raised by hand whenever the file, or what a code means, changes."""
NOTHING = -1
"""Code of a vector that holds NaN or infinity: a lead that was not measured."""
RECORDS = 100
"""Records of one step of the clustering (HuBERT-ECG's recipe); of 12 leads they are 24,000
segments.
"""
_SCORES = {"cpu": 2**18, "cuda": 2**26}
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

    @property
    def size(self) -> int:
        """C, the number of codes."""
        return len(self.centres)

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
        infinity.
        """
        flat = vectors.reshape(-1, vectors.shape[-1]).float()
        at_once = max(1, _SCORES[flat.device.type] // self.size)
        with torch.autocast(flat.device.type, enabled=False):
            parts = [self._nearest(part) for part in flat.split(at_once)]
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
            book = Codebook(file["centres"], json.loads(str(file["facts"])))
            sound = book.digest == str(file["digest"])
    except Exception as error:  # a damaged file can make its reader fail in any way
        raise BadWeights(f"{path} cannot be read as a codebook ({error}); {again}") from error
    if not sound:
        raise BadWeights(f"{path} has changed since it was saved; {again}")
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
    batch that holds NaN or infinity.
    """
    models: dict[int, Any] = {}
    batches = vectors = 0
    for batch in stream:
        x = _fed(batch, batches)
        models = models or {size: _kmeans(size, len(x), seed) for size in sizes}
        for model in models.values():
            model.partial_fit(x)
        batches, vectors = batches + 1, vectors + len(x)
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
    without NaN.
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
        used, perplexity = usage(count)
        rows.append((book.size, used, perplexity, sse, sse / vectors, vectors))
    return pd.DataFrame(rows, columns=["codes", "used", "perplexity", "sse", "inertia", "vectors"])


class Describe(Protocol):
    """A description of segments."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything that decides the numbers, as plain JSON."""

    def __call__(self, windows: Tensor) -> Tensor:
        """(batch, 12, 500) float32 -> (batch, 12, 20, dim) on the same device."""


class Nodes:
    """Nodes of one block of a frozen network: all leads, nothing masked, no edge left out."""

    def __init__(self, encoder: NodeEncoder, block: int = 1) -> None:
        """encoder: of the selected checkpoint, on the device that will compute. block: 1 in the
        paper.
        """
        self.encoder, self.block = encoder, block
        self.facts = {"network": digest(encoder), "block": block}

    def __call__(self, windows: Tensor) -> Tensor:
        """(batch, 12, 500) -> (batch, 12, 20, width)."""
        (nodes,) = node_features(self.encoder, windows, (self.block,))
        return nodes


@dataclass(frozen=True, eq=False)
class Codes:
    """A description and its codebooks: the labeller of a stage (`stage.Labeller`)."""

    describe: Describe
    books: Sequence[Codebook]

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the codebooks, which hold the facts of the description."""
        return key({"books": [book.digest for book in self.books]})

    def __call__(self, signal: Tensor) -> Tensor:
        """(batch, 12, 500) -> (codebook, batch, 12, 20) int64 on the same device; BadSetting where
        a description is not finite.
        """
        described = self.describe(signal)
        codes = torch.stack([book.assign(described) for book in self.books])
        if (codes == NOTHING).any():
            raise BadSetting(
                "a segment's description is not finite, so it has no code; windows must hold all "
                "twelve leads"
            )
        return codes


def codebooks(
    corpus: Corpus,
    describe: Describe,
    sizes: Sequence[int],
    *,
    seed: int,
    device: str = "cpu",
    advance: Callable[[int], None] | None = None,
) -> dict[int, Codebook]:
    """One codebook per size, from one window of every record of the corpus in shuffled batches:
    size -> codebook.

    The records of an incomplete last batch are left out; where there are fewer than `RECORDS`, all
    are one batch. The same corpus, description, sizes and seed give the same bits on one machine.
    `advance` gets the number of records of each batch.
    """

    def described() -> Iterator[Tensor]:
        for batch in windows(corpus, seed=seed, device=device):
            yield describe(batch)
            if advance is not None:
                advance(len(batch))

    return fit(described(), sizes, seed=seed, facts=dict(describe.facts))


def windows(corpus: Corpus, *, seed: int, device: str) -> Iterator[Tensor]:
    """(record, 12, 500) batches that codebooks are fitted on: one window of every record of the
    corpus, shuffled, without an incomplete last batch.
    """
    records, size = len(corpus), min(RECORDS, len(corpus))
    for first in range(0, records - size + 1, size):
        rows = corpus.shuffled(first, first + size, "codebook records", seed)
        starts = corpus.starts(rows, "codebook windows", seed, int(rows[0]))
        yield torch.from_numpy(corpus.cut(rows, starts)).to(device)
