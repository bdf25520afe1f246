"""From datasets on disk to what a recipe trains on: corpora without what evaluation may see, and
the development task.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ecgbench import datasets, models
from ecgbench.core.cells import Folders
from ecgbench.core.seeds import rng
from ecgbench.core.text import size
from ecgbench.data.copy import Copy
from ecgbench.data.prepare import held, prepare
from ecgbench.data.source import root_of
from ecgbench.errors import BadRecord, BadSetting, Lacking, MissingData, UnknownName
from ecgbench.evaluate import torchrun
from ecgbench.pretraining.apart import APART, set_apart
from ecgbench.pretraining.corpus import Corpus, gather
from ecgbench.pretraining.exclusion import Exclusion
from ecgbench.pretraining.guard import PTBXL, Guard, Name
from ecgbench.pretraining.kept_encoders import Development
from ecgbench.pretraining.network import new_network
from ecgbench.pretraining.pretrain import Data
from ecgbench.pretraining.recipe import DEVELOPMENT, Recipe
from ecgbench.pretraining.shards import Layout, Shards, Source, lacking, opened, pack
from ecgbench.pretraining.streamed import Streamed
from ecgbench.pretraining.streaming import (
    Holding,
    bytes_of,
    folder_of,
    found,
    source_of,
    told,
)
from ecgbench.study.progress import SILENT, Display, counting


def assemble(
    recipe: Recipe,
    folders: Folders,
    progress: Display,
    holding: Holding = Holding(),  # noqa: B008  (frozen)
    records: int | None = None,
) -> Data:
    """Prepare, leave out, and read the corpora of a recipe, or at most so many of their `records`,
    the same at every call and in memory; what is prepared already is not prepared again. Every
    process of torchrun calls this alike.

    Left out is what evaluation may see (`Exclusion`) of the corpora and of every other dataset that
    is prepared here.

    BadSetting: a model that cannot be pre-trained, a corpus that no loader reads. MissingData: a
    dataset that is not under `folders.data`. LeakError: a recording that must not enter training.
    """
    names = list(recipe.datasets)
    # a model that cannot be pre-trained is refused before anything is read
    new_network(recipe.model, recipe.shape)
    lost = [n for n in names if n not in datasets.names()]
    if lost:
        raise BadSetting(
            f"recipe {recipe.name} reads {len(names)} corpora, and for {', '.join(lost)} there is "
            f"no loader yet; register them as data sets of a plug-in, or run: ecgbench pretrain "
            f"pretrain small"
        )
    if recipe.task not in datasets.tasks():
        raise UnknownName("task", recipe.task, list(datasets.tasks()), "List them: ecgbench tasks")
    progress.note(development(recipe, folders))
    _demand_data(names, folders)
    return _Assembling(recipe, folders, progress, holding, records)()


def to_pack(recipe: Recipe, folders: Folders, holding: Holding) -> int | None:
    """Bytes of shards that a streamed pre-training would still write; None where a dataset is not
    prepared, so that nobody can know.
    """
    assembling = _Assembling(recipe, folders, SILENT, holding)
    try:
        assembling.hold()
    except (MissingData, UnknownName, BadRecord, BadSetting):
        return None
    return assembling.lacking()


class _Assembling:
    """What one process has of the data of a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        folders: Folders,
        progress: Display,
        holding: Holding,
        records: int | None = None,
    ) -> None:
        self.recipe, self.folders, self.progress = recipe, folders, progress
        self.holding, self.records = holding, records
        self.contract = models.ROOM.card(recipe.model).contracts[0]
        self.layout = Layout(kept=recipe.kept)
        self.owner, _, self.task = datasets.tasks()[recipe.task]
        self.made: dict[str, Copy] = {}

    def __call__(self) -> Data:
        # the first process prepares in it; the others hear of it when that is done
        streams = self.records is None and torchrun.of_first(
            lambda: self.holding.streams(self.folders.out, self._bytes)
        )
        corpus, left_out = self._streamed() if streams else self._in_memory()
        if torchrun.of_first(lambda: corpus.digest) != corpus.digest:
            raise BadSetting(
                "the corpus of this process is not that of the first one; give all machines the "
                "same prepared datasets"
            )
        self.progress.note(
            f"{len(corpus)} recordings of {', '.join(self.recipe.datasets)} to train on, "
            f"{sum(left_out.values())} left out, {corpus.too_short} too short"
        )
        recipe, owner = self.recipe, self.made[self.owner]
        return Data(
            corpus=corpus,
            development=Development.of(
                owner,
                self.task,
                self.contract,
                recipe.probe_records,
                recipe.seed,
                check=APART if recipe.apart else "val",
            ),
            prepared={p.name: p.digest for p in self._corpora},
            left_out=left_out,
        )

    @property
    def _corpora(self) -> list[Copy]:
        return [self.made[name] for name in self.recipe.datasets]

    def _bytes(self) -> int:
        self._prepare()
        return bytes_of(self._corpora, self.contract, self.layout)

    def _prepare(self) -> None:
        for name in dict.fromkeys([*self.recipe.datasets, self.owner]):
            if name not in self.made:
                with counting(f"prepare {name}", self.progress) as shown:
                    copy = prepare(name, self.folders.data, self.folders.prepared, shown)
                self.made[name] = self._divided(copy)

    def _divided(self, copy: Copy) -> Copy:
        """Without the patients that only compare encoders."""
        if self.recipe.apart and copy.name == self.owner:
            return set_apart(copy, self.recipe.apart)
        return copy

    def _beside(self) -> list[Copy]:
        """Copy datasets that are no corpora: what evaluation sees of them must not come under
        another name, nor do patients of the development task who only compare encoders.
        """
        copies = []
        for name in sorted({*datasets.names(), self.owner} - {*self.recipe.datasets}):
            if name in self.made:
                copies.append(self.made[name])
                continue
            with suppress(MissingData, BadRecord, BadSetting):
                copies.append(held(name, self.folders.data, self.folders.prepared))
        return copies

    def _guard(self, beside: Sequence[Copy]) -> Guard:
        # PTB-XL may be prepared here, perhaps in part, without being a corpus
        copies = [*self._corpora, *beside]
        return Guard.of(self._corpora, next((p.published for p in copies if p.name == PTBXL), None))

    def _in_memory(self) -> tuple[Corpus, dict[str, int]]:
        self._prepare()
        beside = self._beside()
        exclusion = Exclusion([*self._corpora, *beside])
        chosen: dict[Name, bool] = {}

        def allowed(name: Name) -> bool:
            return chosen.setdefault(name, exclusion(name))

        guard, kept = self._guard(beside), self.recipe.kept
        choose: Callable[[Name], bool] = allowed
        if self.records is not None:
            choose = _some(self._corpora, self.records, allowed).__contains__
        with counting("read the corpora", self.progress) as shown:
            corpus = gather(self._corpora, guard, self.contract, kept, choose, shown)
        held = size(bytes_of(self._corpora, self.contract, self.layout))
        self.progress.note(f"corpus: in memory, at most {held} in each process")
        return corpus, dict(exclusion.reasons)

    def _streamed(self) -> tuple[Streamed, dict[str, int]]:
        """One process of each machine prepares and packs; the others read no table of the size of
        the corpus, but the two columns that the guard needs.
        """
        buffer = torchrun.of_first(lambda: self.holding.shuffled(self.folders.out))
        home = self.holding.home(self.folders)
        shards = guard = None
        if torchrun.local() == 0:
            self._prepare()
            beside = self._beside()
            guard = self._guard(beside)
            shards = self._packed(home, guard, beside)
        torchrun.wait()
        identity: Any = torchrun.of_first(
            lambda: None if shards is None else shards.index["identity"]
        )
        if shards is None or guard is None:
            self.hold()
            guard = self._guard(self._beside())
            shards = found(home, identity)
        corpus = Streamed(shards, guard, buffer)
        self.progress.note(f"corpus: {told(corpus)}")
        return corpus, dict(shards.index["left_out"])

    def _packed(self, home: Path, guard: Guard, beside: Sequence[Copy]) -> Shards:
        """The shards, those that are lacking written now."""
        source, identity = self._source(beside)
        folder = folder_of(home, identity)
        with counting(f"pack the corpora into {folder}", self.progress) as shown:
            there = opened(folder, identity)
            return there or pack(source, guard, folder, identity, self.layout, shown)

    def _source(self, beside: Sequence[Copy]) -> tuple[Source, str]:
        """What is packed, and its identity."""
        exclusion = Exclusion([*self._corpora, *beside])
        return source_of(self._corpora, self.contract, exclusion, exclusion.reasons, self.layout)

    def hold(self) -> None:
        """What is prepared already. MissingData where that is not all."""
        data, prepared = self.folders.data, self.folders.prepared
        wanted = [*self.recipe.datasets, self.owner]
        self.made = {name: self._divided(held(name, data, prepared)) for name in wanted}

    def lacking(self) -> int:
        """Bytes of shards that are not packed yet, of what `hold` found."""
        beside = self._beside()
        source, identity = self._source(beside)
        folder = folder_of(self.holding.home(self.folders), identity)
        if opened(folder, identity) is not None:
            return 0
        return lacking(source, self._guard(beside), folder, identity, self.layout)


def _some(prepared: Sequence[Copy], records: int, choose: Callable[[Name], bool]) -> set[Name]:
    """So many of the recordings that may be chosen, drawn at random."""
    names = [
        Name(p.name, record)
        for p in prepared
        for record in p.index.loc[p.index["split"] == "train", "record"]
    ]
    order = rng("records to train on").permutation(len(names))
    return set(islice((names[i] for i in order if choose(names[i])), records))


def development(recipe: Recipe, folders: Folders) -> str:
    """One line: on which task encoders are compared, and for which one it stands in."""
    task, known = recipe.task, datasets.tasks()
    told = f"development task: {task}"
    if recipe.apart:
        told += f" on one in {recipe.apart} training patients, who are not trained on"
    if task in known and known[task][1].synthetic:
        return told
    try:
        root_of(known[DEVELOPMENT][0], known[DEVELOPMENT][1], folders.data)
        lacking = ""
    except MissingData:
        lacking = f", whose data, CODE, are not in {folders.data or 'a folder that is named'}"
    if task == DEVELOPMENT:
        return f"{told}{lacking}{'; recipe small has ptbxl_super instead' if lacking else ''}"
    return f"{told}, which stands in for the paper's {DEVELOPMENT}{lacking}"


def _demand_data(names: Sequence[str], folders: Folders) -> None:
    """MissingData where a corpus is not here, Lacking where several are not."""
    missing = []
    for name in names:
        try:
            root_of(name, datasets.get(name).CARD, folders.data)
        except MissingData as error:
            missing.append(str(error))
    if len(missing) == 1:
        raise MissingData(missing[0])
    if missing:
        raise Lacking(f"{len(missing)} corpora of this recipe are not here:", *missing)
