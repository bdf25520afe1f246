"""What the fits of a run predict for new recordings, and which features a model gives of them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from safetensors.numpy import load

from ecgbench import models, policies
from ecgbench.cards.cell import FEATURES, FITS, PAPER, RANDOM, RELEASED, Cell, Fit
from ecgbench.cards.checked import facts
from ecgbench.cards.plan import weights_of
from ecgbench.core.files import sha256_of
from ecgbench.core.folders import damaged, read_bytes
from ecgbench.core.keys import grouped
from ecgbench.core.registry import plain
from ecgbench.core.text import counted, enumerated
from ecgbench.datasets.own import CARD
from ecgbench.datasets.own import card as card_of
from ecgbench.ecg import preprocess
from ecgbench.ecg.draw import Count, Fixed
from ecgbench.ecg.leads import ALL, LeadSubset
from ecgbench.ecg.readers.notation import ReadOptions
from ecgbench.ecg.recording import Recording
from ecgbench.errors import BadRecord, BadSetting, Damaged, MissingData, UnknownName
from ecgbench.evaluate import protocols
from ecgbench.evaluate.device import choose, demand
from ecgbench.evaluate.predict import probabilities
from ecgbench.policies.hide import NATIVE, Policy
from ecgbench.prediction.records import Values, features, table
from ecgbench.results import operating
from ecgbench.results.reader import Reader
from ecgbench.study import lent
from ecgbench.study.store import Store
from ecgbench.study.stored import Result
from ecgbench.weights.chosen import of as weights_by

if TYPE_CHECKING:  # with torch, which names are checked without
    from ecgbench.evaluate.encode import Encoder
    from ecgbench.evaluate.network import Network

MET = "has the name of a record that the fit was trained or chosen on: too good if it is that one"
TESTED = "has the name of a test record of the run: predicted by the fits that were tested on it"
_TWELVE = "twelve leads"
_OF: dict[str, Callable[[Cell], str]] = {
    "task": lambda c: c.task,
    "model": lambda c: c.fit.model,
    "policy": lambda c: c.policy,
    "fold": lambda c: c.fit.fold,
}
"""Option -> what it chooses among the cells of a run."""


def predict(run: str | Path, records: str | Path, **how: Any) -> pd.DataFrame:
    """What the fits of a run predict for the recordings in a file or below a folder: a row each.

    how: leads ("I", "I+II", "12"; the others are hidden; without: those of the run, of several sets
    the largest that a recording has); task, model and policy (may be left out where the run has
    one); weights (the file of the run, where it lies elsewhere now); fold ("2/5": the fit of one
    fold in place of the mean of all fits); fs (Hz), unit and signals of files that do not say them
    (without: as the run's recordings were imported); device; progress (a `Display`); without (files
    that are no recordings).

    Columns: record, file, patient (of test records of the run), leads, windows, `probability:LABEL`
    (of several fits their mean, beside it `lowest:LABEL` and `highest:LABEL`), auroc, auroc_low and
    auroc_high (macro, of these fits in the run at these leads, 95 % interval), `flag:LABEL` (1 at
    or above the threshold that keeps 95 % specificity in the run's validation records, of several
    fits their mean, else 0; blank without one), fit (keys), task, model, weights, policy,
    trained_on, use, note, and reason (why there is no probability). What
    must be said of the table is in `attrs["notes"]`. EcgbenchError in one line where no recording
    has a probability.

    >>> import ecgbench
    >>> table = ecgbench.predict("runs/ptbxl", "ecgs", model="laef", leads="I")  # doctest: +SKIP
    """
    chosen = {option: how.pop(option, None) for option in _OF}
    fits = Fits.of(Path(run), chosen, how.pop("weights", None), how.pop("device", "cpu"))
    how |= {"fix": fits.reader.plan.fix, "usual": fits.usual, "stated": fits.options}
    made = table(fits, [*fits.columns, *fits.flags], Path(records), **how)
    return made.astype(dict.fromkeys(fits.flags, "Int8"))


def embed(
    model: str, records: str | Path, *, weights: str = RELEASED, policy: str = PAPER, **how: Any
) -> pd.DataFrame:
    """The features that a model gives of the recordings in a file or below a folder: a row each.

    weights: released, random, a name on the model's card, or a path. policy: how hidden leads are
    filled; "paper": as the model's contract says. how: as of `predict`, but what chooses fits.

    Columns: record, file, leads, windows, `f0000`, `f0001`, ... (float32, the mean over windows),
    model, weights, policy, use, note, and reason (why there are none).

    >>> import ecgbench
    >>> table = ecgbench.embed("laef", "ecgs", leads="I")  # doctest: +SKIP
    >>> features = table.filter(regex="^f[0-9]{4}").to_numpy()  # doctest: +SKIP
    """
    name = models.resolve(model)
    network = _built(
        name, weights_of(weights, [name], models.resolve)[name], how.pop("device", "cpu")
    )
    usual = network.card.contract(PAPER).policy
    filled = Policy.of(usual if plain(policy) == PAPER else policy, _untaught)
    encoder = _encoder(network, PAPER, filled, False)

    def compute(recording: Recording, leads: LeadSubset) -> Values:
        of = features(recording, leads, encoder, name)
        known = {"windows": len(of), "model": name, "weights": network.weights}
        return {**known, "policy": filled.name}, _of_weights(network), of.mean(axis=0, dtype=float)

    columns = [f"f{number:04d}" for number in range(network.card.dim)]
    return table(compute, columns, Path(records), **how).astype(dict.fromkeys(columns, "float32"))


class OneFit(NamedTuple):
    """A fit of a run, ready to predict."""

    result: Result
    """A finished cell of it."""
    encoder: "Encoder"
    head: dict[str, np.ndarray]
    """As `evaluate.predict.probabilities` takes it."""
    met: frozenset[str]
    """Records that it was trained or chosen on; of `linear` and `finetune` the latter alone."""
    tested: frozenset[str]
    """Test records that it was scored on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fits:
    """The fits (seeds, folds) of one model on one task in a run, under one policy."""

    reader: Reader
    """Of their cells."""
    network: "Network"
    """That with which they began."""
    fits: dict[Fit, OneFit]
    _scores: dict[LeadSubset, tuple[float, float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, run: Path, chosen: dict[str, str | None], weights: str | None, device: str
    ) -> "Fits":
        """Those that are `chosen`, by the names in _OF. weights: as of `predict`. BadSetting or
        UnknownName lists what there is; MissingData where nothing is finished; Damaged where a file
        is not as it was written.
        """
        store = Store(run)
        plan = store.existing_plan()
        if lent.read(run):
            raise BadSetting(f"{run} is an export, which holds no fits; give the run itself")
        if plan.control:
            raise BadSetting(f"{run} is a control of a study, whose fits predict nothing")
        cells = _chosen(store, plan.cells, chosen)
        reader = Reader(store, replace(plan, cells=tuple(cells)), ("auroc",), plan)
        for why in reader.damaged.values():
            raise Damaged(why)
        by_fit = grouped(list(reader.results.values()), lambda r: r.cell.fit)
        results = {f: max(own, key=lambda r: r.document["n_records"]) for f, own in by_fit.items()}
        if not results:
            raise MissingData(f"{run}: {cells[0].label} is not there: {store.state(cells[0])[1]}")
        first, tuned = next(iter(results.values())), not protocols.is_frozen(plan.training.protocol)
        model = first.cell.fit.model
        # a model from outside may keep some of its weights elsewhere than in its state dict
        whole = tuned and models.ROOM.built_in(model)
        untrained = whole or first.document["weights_name"] == RANDOM
        given = weights_of(weights or first.cell.fit.weights, [model], models.resolve)
        word = RANDOM if untrained else given[model]
        own = weights_by(model, word)
        if own.kind == "file" and not own.path.exists():
            raise BadSetting(f"no file {own.path}, the weights of {model} in {run}: --weights PATH")
        network = _built(model, word, device)
        encoders: dict[tuple[str, str], Encoder] = {}
        fits = {}
        for fit, result in results.items():
            which = str(result.fit_folder) if tuned else "", str(result.document["policy_state"])
            if which not in encoders:
                mine, singly = _of_fit(network, result, tuned), plan.scoring.draw == "window"
                encoders[which] = _encoder(mine, fit.contract, _policy(result), singly)
            fits[fit] = OneFit(
                result,
                encoders[which],
                load(read_bytes(result.fit_folder, "head.safetensors")),
                met=frozenset(result.validation()["record"]),
                tested=frozenset(result.predicted().records),
            )
        return cls(reader=reader, network=network, fits=fits)

    @property
    def first(self) -> Result:
        """A finished cell of the first of them."""
        return next(iter(self.fits.values())).result

    @property
    def labels(self) -> list[str]:
        """Of the task."""
        return list(self.first.document["key_facts"]["labels"])

    @property
    def columns(self) -> list[str]:
        """Of the values of a recording."""
        several = len({(fit.seed, fit.fold) for fit in self.fits}) > 1
        kinds = ("probability", "lowest", "highest")[: 3 if several else 1]
        return [f"{kind}:{label}" for kind in kinds for label in self.labels]

    @property
    def flags(self) -> list[str]:
        """Columns that say whether a probability is at or above the threshold."""
        return [f"flag:{label}" for label in self.labels]

    @property
    def options(self) -> ReadOptions:
        """With which the recordings of the run were imported."""
        run, name = self.reader.run, self.first.dataset
        given = [
            Path(p) for one in run.requested() for room, p in one.plugins if room == "datasets"
        ]
        files = [file for file in (run.path / "imported" / CARD, *given) if file.suffix == ".toml"]
        for card in (card_of(file) for file in files if file.is_file()):
            if card.name == name:
                return card.options
        return ReadOptions()

    def usual(self, recording: Recording) -> LeadSubset:
        """The leads of the run, of several sets the largest that a recording has; all of these
        where the run has random ones alone. BadRecord where it has no such set.
        """
        settings = [cell.setting for cell in self.reader.plan.cells]
        known = {
            s.subset if isinstance(s, Fixed) else ALL: 0 for s in settings if str(s) == s.typed
        }
        there = [leads for leads in known if {*leads.leads} <= {*recording.leads}]
        if known and not there:
            every = enumerated([_TWELVE if leads == ALL else str(leads) for leads in known])
            raise BadRecord(f"the run is for {every}; it has {'+'.join(recording.leads)}")
        return max(there, key=len) if there else LeadSubset(recording.leads)

    def __call__(self, recording: Recording, leads: LeadSubset) -> Values:
        """Facts, notes and values of a recording."""
        shown = str(leads) if any(fit.shown == str(leads) for fit in self.fits) else ""
        fits = [fit for fit in self.fits if fit.shown == shown]
        if not fits:
            known = enumerated(sorted({fit.shown for fit in self.fits}))
            raise BadRecord(f"no fit of the run is for {leads}: {known}")
        # in a cross-validation the other fits were trained on it
        tested = [fit for fit in fits if recording.record in self.fits[fit].tested]
        used = tested or fits
        score, trained_at = self.score(leads), self._trained_at(used[0])
        notes = self._notes(leads, trained_at, score) + ([TESTED] if tested else [])
        if not tested and any(recording.record in self.fits[fit].met for fit in used):
            notes.append(MET)
        first, fitted = self.first, [self.fits[fit].result.fitted for fit in used]
        values, windows = self._probabilities(recording, leads, used)
        at, why = self._thresholds(used, leads, trained_at)
        notes += why
        row: dict[str, Any] = {
            **dict(zip(("auroc", "auroc_low", "auroc_high"), score)),
            "windows": windows,
            "task": first.cell.task,
            "model": self.network.name,
            "weights": first.document["weights_name"],
            "policy": first.cell.policy,
            "fit": " ".join(fit["key"] for fit in fitted),
            "trained_on": f"{fitted[0]['records'] or 'no'} records of {first.dataset} at "
            f"{trained_at}",
        }
        parts = [values.mean(axis=0), values.min(axis=0), values.max(axis=0)]
        flag = np.where(np.isnan(at), np.nan, parts[0] >= at)
        return row, notes, np.concatenate([np.concatenate(parts)[: len(self.columns)], flag])

    def _thresholds(
        self, fits: Sequence[Fit], leads: LeadSubset, at: str
    ) -> tuple[np.ndarray, list[str]]:
        """(label,) thresholds that keep the specificity of the run's validation records, mean of
        the fits, NaN where there is none, and why.
        """
        none = np.full(len(self.labels), np.nan)
        if at != _at(leads):
            return none, [f"no threshold at {_at(leads)}: those of the run are of {at}"]
        each, why = [], list[str]()
        for fit in fits:
            found = operating.thresholds(self.fits[fit].result)["specificity"]
            values = [found.get(label, found.get("", "none is stored")) for label in self.labels]
            pairs = [*zip(self.labels, values)]
            why += [f"no threshold of {n}: {v}" for n, v in pairs if isinstance(v, str)]
            each.append([np.nan if isinstance(v, str) else v for v in values])
        return np.mean(each, axis=0), [*dict.fromkeys(why)]

    def _probabilities(
        self, recording: Recording, leads: LeadSubset, fits: Sequence[Fit]
    ) -> tuple[np.ndarray, int]:
        """(fit, label) probabilities, and how many windows."""
        used, model = [self.fits[fit] for fit in fits], self.network.name
        encoders = {id(one.encoder): one.encoder for one in used}
        made = {name: features(recording, leads, e, model) for name, e in encoders.items()}
        outputs = self.first.fitted["key_facts"]["labels"]
        columns = [outputs.index(label) for label in self.labels]
        windows = len(next(iter(made.values())))
        record_of = np.zeros(windows, int)
        values = [probabilities(made[id(one.encoder)], record_of, **one.head)[0] for one in used]
        return np.stack(values)[:, columns], windows

    def score(self, leads: LeadSubset) -> tuple[float, float, float]:
        """Macro AUROC of these fits in the run at these leads, and its 95 % interval; NaN where
        there is none.
        """
        if leads not in self._scores:
            setting = Count(len(ALL), 0) if leads == ALL else Fixed(leads)
            cells = [c for c in self.reader.plan.cells if c.setting == setting]
            self._scores[leads] = (np.nan, np.nan, np.nan)
            for row in self.reader.rows(cells):
                if row.status == "ok":
                    self._scores[leads] = row.score, row.sure.low, row.sure.high
        return self._scores[leads]

    def _trained_at(self, fit: Fit) -> str:
        """The leads of a training, in words."""
        if fit.shown or self.reader.plan.training.leads == "random":
            return fit.shown or "1 to 12 leads at random"
        data = self.reader.datasets[self.first.dataset]
        if not data["fewer_leads"]:
            return _TWELVE
        mixed = f"their own leads ({data['fewer_leads']} with fewer than twelve)"
        return data.get("leads") or mixed

    def _notes(self, leads: LeadSubset, at: str, score: tuple[float, ...]) -> list[str]:
        """What puts in doubt the probabilities at these leads of fits that were trained `at`."""
        plan, here = self.reader.plan, _at(leads)
        notes = _of_weights(self.network) if protocols.is_frozen(plan.training.protocol) else []
        if self.reader.datasets[self.first.dataset]["synthetic"]:
            notes.append("trained on synthetic recordings: it says nothing about a patient")
        if lost := len({c.fit for c in plan.cells} - {*self.fits}):
            notes.append(f"{counted(lost, 'fit')} of the run not finished, and left out")
        if not protocols.learns(plan.training.protocol):
            notes.append(f"its authors' classifier: perhaps not calibrated at {here}")
        elif at != here:
            known = "not calibrated" if at == _TWELVE else "perhaps not calibrated"
            notes.append(f"trained at {at}: {known} at {here}")
        if np.isnan(score[0]):
            again = f"the `ecgbench run` command of the run with --leads {leads} adds it"
            notes.append(f"the run has no AUROC at {here}; {again}")
        return notes


def _at(leads: LeadSubset) -> str:
    return _TWELVE if leads == ALL else str(leads)


def _chosen(store: Store, cells: Sequence[Cell], chosen: dict[str, str | None]) -> Sequence[Cell]:
    """The cells that options choose; of an option that is not given, those of the only name, and of
    folds all. BadSetting, UnknownName.
    """
    rooms = {"model": models, "policy": policies}
    for option, of in _OF.items():
        name, known = chosen[option], list(dict.fromkeys(map(of, cells)))
        if name is None and option == "fold":
            continue
        if name is None:
            if len(known) > 1:
                raise BadSetting(
                    f"{store.path} has more than one {option}: {enumerated(known)}; choose one, "
                    f"such as --{option} {known[0]}"
                )
            name = known[0]
        elif name.endswith(".py") and option in rooms:
            name = rooms[option].resolve(name)
        cells = [cell for cell in cells if plain(of(cell)) == plain(name)]
        if not cells:
            raise UnknownName(option, name, known, f"({store.path} has no other.)")
    model = cells[0].fit.model
    try:
        models.resolve(model)  # one of ./adapters is found by its name
    except UnknownName:
        raise BadSetting(
            f"the model {model} of {store.path} is a file of your own; give it: --model "
            f"PATH/{model}.py"
        ) from None
    return cells


def _built(name: str, weights: str, device: str) -> "Network":
    from ecgbench.evaluate import network

    demand(chosen := choose(device))
    return network.build(name, weights, chosen)


def _of_fit(network: "Network", result: Result, tuned: bool) -> "Network":
    """The network of a fit; BadSetting where it, or code that it rests on, is not what it was."""
    from ecgbench.study import same_network
    from ecgbench.weights.load import assign, digest

    fit, known, folder = result.fitted, result.document["key_facts"], result.fit_folder
    read = network.card.contract(result.cell.fit.contract)
    begun = network
    if tuned:
        module, file = deepcopy(network.module), "encoder.safetensors"
        assign(module, read_bytes(folder, file), f"{folder}/{file}")
        network = replace(network, module=module, sha256=digest(module))
    contract = facts(read)
    policy = result.cell.policy
    now = {
        "fits": FITS,
        "features": FEATURES,
        "preprocess": preprocess.VERSION,
        "contract": {k: v for k, v in contract.items() if k != "absent"},
        "source": models.ROOM.source_hash(network.name),
        "policy_source": None if policy == NATIVE else policies.ROOM.source_hash(policy),
        "weights": network.sha256,
        "weights_file": network.file_sha256,
        "path": "eager",
    }
    then = {**known, "fits": fit["key_facts"].get("fits"), "weights": fit["encoder_sha256"]}
    if changed := [name for name, value in now.items() if then.get(name) != value]:
        raise BadSetting(
            f"{folder} was made by another version of ecgbench, the model or its weights "
            f"({', '.join(changed)} changed); give those of the run, or make it anew with these "
            f"by the same `ecgbench run` command"
        )
    same_network.demand(begun, read, fit["key_facts"], [result.run])
    return replace(network, precision=known["precision"])


def _policy(result: Result) -> Policy:
    """The policy of a cell with what it has learned."""
    state, stored = None, result.document["policy_state"]
    if stored:
        if sha256_of(result.run / stored) != Path(stored).stem:
            raise damaged(result.run / stored, result.folder)
        state = load((result.run / stored).read_bytes())
    return Policy.of(result.cell.policy, _untaught, state)


def _untaught() -> NoReturn:
    raise BadSetting("a policy that learns needs the training split of a run; choose another")


def _encoder(network: "Network", contract: str, policy: Policy, singly: bool) -> "Encoder":
    from ecgbench.evaluate.encode import Encoder

    card = network.card
    if policy.fill is None and not card.native:
        raise BadSetting(f"{card.title} reads all of its leads at once; choose --policy zero")
    return Encoder(network.encoder, card.contract(contract), policy, singly, card.dim)


def _of_weights(network: "Network") -> list[str]:
    """What must be said of the weights of a network."""
    if network.weights == RANDOM:
        return [f"{network.card.title} has random weights: it was never trained"]
    ours = [f"weights {network.weights} of {network.card.title} were trained by this project"]
    terms = [f"{w.file} ({w.licence}): {w.terms}" for w in network.licensed if w.terms]
    return [*(ours if network.source.get("own") else []), *terms]
