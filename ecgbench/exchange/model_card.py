"""Scores of a run as `model-index` of the model card of a hub, in YAML."""

import json
from collections.abc import Iterator

from ecgbench import datasets
from ecgbench.results.study import Run


def card(study: Run) -> str:
    """Front matter, an entry for each model; rows without a number are left out."""
    return "\n".join(["---", "library_name: ecgbench", "model-index:", *_models(study), "---"])


def _models(study: Run) -> Iterator[str]:
    for model in study.models:
        rows = study.main[(study.main["model"] == model.name) & study.main["value"].notna()]
        if len(rows):
            yield f"- name: {_text(model.title)}"
            yield "  results:"
        for (task, leads, policy), own in rows.groupby(["task", "leads", "policy"], sort=False):
            facts = next(t for t in study.tasks if t.name == task)
            data = next(d for d in study.datasets if d.name == facts.dataset)
            built_in = datasets.ROOM.built_in(data.name)
            url = datasets.ROOM.card(data.name).url if built_in else ""
            name = f"{facts.title}, leads {leads} ({policy})"
            yield from ("  - task:", "      type: other", f"      name: {_text(name)}")
            yield from ("    dataset:", f"      name: {_text(data.title)}")
            yield from (f"      type: {_text(data.name)}", "      split: test")
            yield from ("    metrics:",)
            for row in own.to_dict("records"):
                title = f"macro {study.metrics[row['metric']].title}"
                low, high = row["low"], row["high"]
                yield f"    - type: {row['metric']}"
                yield f"      value: {row['value']:.4f}"
                if low == low:
                    title += f", 95 % interval {low:.4f} to {high:.4f}"
                yield f"      name: {_text(title)}"
            if url:
                yield from ("    source:", "      name: data", f"      url: {_text(url)}")


def _text(value: str) -> str:
    """As YAML takes it, whatever it holds: a JSON string is one."""
    return json.dumps(value, ensure_ascii=False)
