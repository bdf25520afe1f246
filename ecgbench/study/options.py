"""What a run was asked, in its own types: `ecgbench run` and `ecgbench.run` build it alike."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ecgbench import perturbations
from ecgbench.cards.plan import Folders, Request
from ecgbench.cards.settings import Words, items, read
from ecgbench.core.registry import folder_name
from ecgbench.errors import BadSetting, UnknownName
from ecgbench.evaluate import torchrun
from ecgbench.study import controls, engines, frozen, jobs, own_records
from ecgbench.study import plan as planning
from ecgbench.study.jobs import Execution
from ecgbench.study.own_records import RecordFiles
from ecgbench.study.plan_file import PlanFile, RunSettings, is_run, named, parse, values
from ecgbench.study.store import Store

STUDY = {
    **{name: name for name in ("models", "tasks", "leads", "weights", "policy")},
    **{name: name for name in ("seeds", "folds", "limit")},
    "protocol": "training.protocol",
    "train_leads": "training.leads",
    "metrics": "scoring.metrics",
}
"""Option -> key of a plan file."""
KINDS: dict[str, Any] = {
    **dict.fromkeys(("plan", "unit", "engine", "device", "command"), str),
    **dict.fromkeys(("records", "labels", "data", "prepared", "out"), Path),
    **dict.fromkeys(("signals", "controls", "perturb", "labels_used"), tuple[str, ...]),
    "fs": float,
    "dry_run": bool,
}
"""Any other option -> type of its value."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """A study, where and how it is computed, and what follows it. Every name in it exists."""

    study: Request
    """Checked; plan.toml is written from it."""
    folders: Folders
    execution: Execution
    controls: tuple[str, ...] = ()
    """Names of the plans that follow: controls, perturbations, other heads."""
    records: RecordFiles | None = None
    """Recordings whose import gives the study its (last) task."""
    typed: frozenset[str] = frozenset()
    """The options and keys of `--set` that were given."""
    dry_run: bool = False

    @classmethod
    def of(cls, sets: Sequence[str] | Mapping[str, Any] = (), **options: Words | None) -> Self:
        """The options of `ecgbench run` by their names, each as on the command line or in Python;
        None is not given. sets: KEY=VALUE each, or a mapping. command: the command line that
        repeats it.

        UnknownName with the nearest name; BadSetting.
        """
        if unknown := [name for name in options if name not in {**STUDY, **KINDS}]:
            raise UnknownName("option", unknown[0], [*STUDY, *KINDS])
        typed = {name: value for name, value in options.items() if value is not None}
        if empty := [name for name, value in typed.items() if str(value) == ""]:
            raise BadSetting(f"{empty[0]} is empty; give it a value, or leave it out")
        given = {n: read(KINDS[n], v, f"--{n} ") for n, v in typed.items() if n in KINDS}
        trained, *retrained = items(typed.pop("train_leads", "")) or [""]
        keys = {STUDY[name]: value for name, value in typed.items() if name in STUDY}
        settings = values(keys | ({STUDY["train_leads"]: trained} if trained else {}), sets)
        files = RecordFiles.of(given, settings)
        out = given.get("out", files and Path("runs") / own_records.name_of(files.folder))
        if is_run(given.get("plan")):  # it goes on where it is
            out = out or Path(given["plan"]).expanduser()
        file = _plan_file(given.get("plan"), settings, out, files)
        request = _request(file, settings, files, given)
        out = out or Path("runs") / folder_name(request.name or "+".join(request.tasks))
        request = Store(out).in_its_words(request)
        perturbed = ",".join(given.get("perturb", ())) or perturbations.NONE
        return cls(
            study=request,
            folders=Folders(data=given.get("data"), prepared=given.get("prepared"), out=out),
            execution=_execution(file.section("run"), given),
            controls=(
                *controls.resolve(given.get("controls", ())),
                *controls.of_heads(retrained),
                *controls.of_perturbations(perturbed),
                *controls.of_labels(given.get("labels_used", ()), request.training.protocol),
            ),
            records=files,
            typed=frozenset([*given, *settings]),
            dry_run=given.get("dry_run", False),
        )

    def imported(self) -> Self:
        """The same once its recordings, if any, are imported into the run folder, now or by an
        earlier run on the same files.
        """
        if self.records is None:
            return self
        card = own_records.bring_in(self.records, self.folders.out)
        if own_records.chooses_models(self.typed, self.study.weights):
            weights, chosen = self.study.weights, ", ".join(self.study.models)
            print(f"models whose {weights} weights are here: {chosen}", file=sys.stderr)
        alone, study = not self.study.tasks, self.study
        study = replace(study, tasks=(*study.tasks, str(card)))
        if alone and "folds" not in self.typed:
            study = own_records.cross_validated(study, card)
        return replace(self, study=planning.check(study), records=None)


def _plan_file(
    plan: str | None, settings: dict[str, Any], out: Path | None, files: RecordFiles | None
) -> PlanFile:
    """The plan that was named, or is frozen in `out`, or the demo, with what was typed."""
    begun = files is not None or any(not key.startswith("run.") for key in settings)
    kept = None if plan is not None or begun or out is None else frozen.read(out)
    if kept is not None and out is not None:
        frozen.demand_intact(kept, out)
        print(f"run: the plan frozen on {kept.plan.date} ({kept.stated[:16]})", file=sys.stderr)
        base = parse(kept.plan.plan, f"{out}/{frozen.FILE}")
    elif plan is None and (files is not None or "tasks" in settings):
        base = PlanFile(values={})
    else:
        base = named(plan or "demo")
    for room, path in base.plugins:
        if room not in jobs.ROOMS:
            raise UnknownName("room of plug-ins", room, jobs.ROOMS)
        jobs.ROOMS[room].resolve(path)
    return replace(base, values={**base.values, **settings})


def _request(
    file: PlanFile, settings: dict[str, Any], files: RecordFiles | None, given: dict[str, Any]
) -> Request:
    """The study, checked. Before recordings are imported, it has the tasks that were typed beside
    them, and its tasks and folds are checked later.
    """
    request = file.request()
    tasks = settings.get("tasks", () if files else (planning.ALL,))
    if planning.ALL in tasks:
        request = _present(request, given.get("data"))
    if files is None:
        if "folds" not in settings and (card := own_records.imported_card(request.tasks)):
            request = own_records.cross_validated(request, card)
        return planning.check(request)
    if own_records.chooses_models({*settings, *given}, request.weights):
        request = replace(request, models=own_records.models_here(request.weights))
    named = planning.check(replace(request, tasks=("demo",), division=type(request.division)()))
    return replace(named, tasks=tasks, division=request.division)


def _present(request: Request, data: Path | None) -> Request:
    """A study of all tasks, or of those of a plan, without those that no dataset has or whose data
    are not here, which are named.
    """
    here, absent = planning.present(request.tasks, data)
    if not here or not absent:
        return request
    print(
        f"{len(here)} of {len(here) + len(absent)} tasks are run; no dataset or no data here: "
        f"{', '.join(absent)} (ecgbench list tasks; ecgbench data fetch NAME)",
        file=sys.stderr,
    )
    return replace(request, tasks=tuple(here))


def _execution(settings: RunSettings, given: dict[str, Any]) -> Execution:
    if not settings.timeout > 0:
        raise BadSetting(f"--set run.timeout={settings.timeout:g}: seconds, more than 0")
    if (several := torchrun.world()) > 1:
        raise BadSetting(
            f"torchrun started {several} processes of this command; a study shares its fits out "
            f"itself; run it without torchrun: ecgbench run --engine local:{several} ..."
        )
    name, options = engines.named(given.get("engine", "local"))
    return Execution(
        engine=name,
        options=options,
        device=given.get("device", "auto"),
        settings=settings,
        command=given.get("command", ""),
    )
