"""Scores of a run as `model-index`, the lines that a hub shows on the card of a model."""

from ecgbench.results.study import Run


def card(study: Run) -> str:
    """YAML front matter for the README of each model; rows without a number are left out."""
    from huggingface_hub import EvalResult, ModelCardData  # takes a second

    tasks = {task.name: task for task in study.tasks}
    data = {one.name: one.title for one in study.datasets}
    rows = study.main[study.main["value"].notna()]
    cards = []
    for model in study.models:
        found = []
        for row in rows[rows["model"] == model.name].to_dict("records"):
            task, name = tasks[row["task"]], f"macro {study.metrics[row['metric']].title}"
            if row["low"] == row["low"]:
                name += f", 95 % interval {row['low']:.4f} to {row['high']:.4f}"
            one = EvalResult(
                task_type="other",
                task_name=task.title,
                dataset_type=task.dataset,
                dataset_name=data[task.dataset],
                dataset_config=f"{task.title}, leads {row['leads']} ({row['policy']})",
                dataset_split="test",
                metric_type=row["metric"],
                metric_name=name,
                metric_value=round(row["value"], 4),
            )
            found.append(one)
        if found:
            index = ModelCardData(
                model_name=model.title, library_name="ecgbench", eval_results=found
            )
            cards.append(f"---\n{index.to_yaml()}\n---")
    return "\n\n".join(cards)
