"""What a report says of certainty: asterisks, why something is not tested, and what becomes of
untrained encoders.
"""

from dataclasses import replace

from ecgbench import reports
from ecgbench.core.note import Note, Notes
from ecgbench.results.study import Run
from tests import by_hand as make


def scores(study: Run) -> list[reports.Score]:
    """Of the main table's one row."""
    section = next(s for s in reports.sections("main_table", study) if s.name == "main_table")
    (row,) = section.parts[0].rows
    return [value for value in row.values() if isinstance(value, reports.Score)]


def beaten(**more: object) -> Run:
    """Two trained columns, and an untrained one that scores higher than both."""
    rows = []
    for leads, at in (("1", 0.0), ("12", 0.1)):
        spread = {"std": 0.01} if leads == "1" else {}
        rows += [
            make.row("ptbxl_super", "laef", leads, 0.8 + at, best=True, **spread),
            make.row("ptbxl_super", "stmem", leads, 0.7 + at, p=0.002, p_holm=0.002, **spread),
            make.row("ptbxl_super", "odd", leads, 0.85 + at, weights="random", **spread),
        ]
    rows += [make.row("ptbxl_super", "odd", "2", status="failed", weights="random")]
    odd = make.model("odd", "Odd", 41_000, weights="random", weights_sha256=None)
    trained = [make.model("laef", "LAEF", 7_104_000), make.model("stmem", "ST-MEM", 88_500_000)]
    return make.build(rows, models=[*trained, odd], **more)


def test_whatever_is_not_significantly_worse_has_an_asterisk():
    """At any rank: the paper's asterisk is no prize for the second and the third."""
    same = {"p": 0.3, "p_holm": 1.0, "not_significantly_worse": True}
    rows = [make.row("ptbxl_super", "m0", "12", 0.8, best=True)]
    rows += [make.row("ptbxl_super", f"m{n}", "12", 0.8 - n / 20, **same) for n in range(1, 6)]
    models = [make.model(f"m{n}", f"Model {n}", 1_000_000) for n in range(6)]
    assert [s.star for s in scores(make.build(rows, models=models))] == [False] + [True] * 5


def test_an_untrained_column_has_a_difference_with_an_interval_and_no_test():
    sections = {section.name: section for section in reports.sections("main_table", beaten())}
    (row,) = [
        row
        for row in sections["comparisons"].parts[0].rows
        if row["model"].text == "Odd" and row["leads"] == "12"
    ]
    assert (row["difference"].text, row["difference"].small) == ("−5.0", "[−6.0, −4.0]")
    assert (row["p"], row["p_holm"]) == (None, None)
    assert row["not_significantly_worse"] is None
    assert [note.kind for note in row["note"]] == ["untrained"]


def test_a_fine_tuned_column_from_a_random_start_is_trained():
    study = beaten(provenance=replace(make.PROVENANCE, protocol="finetune"))
    sections = reports.sections("main_table", study)
    section = next(one for one in sections if one.name == "main_table")
    assert "‡" not in section.parts[0].marks
    (best,) = [s.parts[0].numbers for s in sections if s.name == "best"]
    assert set(best["best_model"]) == {"odd"}


def test_a_reason_not_to_test_is_a_footnote_at_its_score():
    few = Note("test", "not tested: 4.2 degrees of freedom, fewer than 6")
    limited = Note("", "limited: the records chosen favour rare labels")
    rows = [
        make.row("ptbxl_super", "m0", "12", 0.9, best=True, note=Notes([limited])),
        make.row("ptbxl_super", "m1", "12", 0.8, note=Notes([limited, few])),
        make.row("ptbxl_super", "m2", "12", status="failed"),
    ]
    models = [make.model(f"m{n}", f"Model {n}", 1_000_000) for n in range(3)]
    found = scores(make.build(rows, models=models))
    assert [s.footnote for s in found] == [
        *(limited.text, f"{limited.text}; {few.text}", "failed: it broke")
    ]
    assert not any(s.star for s in found)
