"""The checklists: what the store does not know is left to the authors, what it knows is in it."""

import math
from dataclasses import replace

from ecgbench.reports import checklists as report
from ecgbench.results import frozen
from tests.reports.make_study import build, dataset, row, two_models


def _rows(study) -> dict[str, list[dict]]:
    (section,) = report.sections(study)
    groups = [part for part in section.parts if part.kind == "group"]
    return {group.title: list(group.parts[0].rows) for group in groups}


def test_every_subject_stands_there_once_and_points_to_what_is_known() -> None:
    rows = _rows(two_models())
    assert sum(map(len, rows.values())) == len(report.ITEMS)
    assert {item.topic for item in report.ITEMS} - {""} == set(report.ANSWERS)
    assert {int(one["item"]) for one in rows[report.TRIPOD]} == set(range(1, 28))
    for told in (one for own in rows.values() for one in own):
        assert bool(told["evidence"]) == (told["answer"] != report.AUTHORS)
    by_subject = {one["subject"]: one for one in rows[report.TRIPOD]}
    assert by_subject["Ethical approval"]["answer"] == report.AUTHORS
    assert by_subject["Protocol and registration"]["answer"] == frozen.NONE
    # nothing is known of the patients of a run that keeps nothing of them
    assert by_subject["Performance in groups of patients"]["answer"] == report.AUTHORS


def test_no_performance_and_no_events_are_claimed_of_a_run_without_a_number() -> None:
    nan = math.nan
    study = build([row("ptbxl_super", "laef", "12", nan, status="failed")])
    by_subject = {one["subject"]: one["answer"] for one in _rows(study)[report.TRIPOD]}
    assert by_subject["Performance with intervals"] == report.AUTHORS
    assert by_subject["Numbers of participants and events in each analysis"] == report.AUTHORS


def test_synthetic_data_and_limits_are_said_where_the_data_are_named() -> None:
    study = replace(two_models(), datasets=[dataset("demo", "Demo", synthetic=True, limit=60)])
    by_subject = {one["subject"]: one["answer"] for one in _rows(study)[report.TRIPOD]}
    assert "synthetic" in by_subject["Sources of the data, and when they were collected"]
    assert "limited to 60" in by_subject["Participants: setting, eligibility, treatments"]
