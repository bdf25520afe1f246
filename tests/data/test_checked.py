"""What preparation tells of records that are not what they are called, and what `--fix` puts
right.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ecgbench.cards.dataset import Limb
from ecgbench.data.copy import Copy
from ecgbench.data.disk import verify
from ecgbench.data.facts import facts, lines
from ecgbench.data.prepare import find_any, prepare
from ecgbench.data.select import Selection
from ecgbench.datasets import ptbxl
from ecgbench.ecg.leads import LEADS

SWAPPED, COPIED, BOTH = "00003", "00005", "00007"


@pytest.fixture
def faulty(fake_ptbxl: Path, ptbxl_copy: ModuleType) -> Path:
    """aVR and aVF exchanged in one record, V3 a copy of V2 in another, both in a third."""

    def spoil(record: str, order: dict[str, str]) -> None:
        path = fake_ptbxl / "ptbxl" / "records500" / "00000" / f"{record}_hr"
        steps = np.fromfile(path.with_suffix(".dat"), "<i2").reshape(-1, 12).T
        ptbxl_copy.write_record(path, steps[[LEADS.index(order.get(n, n)) for n in LEADS]])

    exchange, copy = {"aVR": "aVF", "aVF": "aVR"}, {"V3": "V2"}
    spoil(SWAPPED, exchange)
    spoil(COPIED, copy)
    spoil(BOTH, exchange | copy)
    return fake_ptbxl


def marks(copy: Copy, column: str) -> dict[str, str]:
    own = copy.index[copy.index[column] != ""]
    return dict(zip(own["record"], own[column]))


def test_findings_are_told_and_change_nothing(faulty: Path, tmp_path: Path) -> None:
    copy = prepare("ptbxl", faulty, tmp_path / "p")
    assert marks(copy, "found") == {
        SWAPPED: "identities",
        COPIED: "copies",
        BOTH: "identities+copies",
    }
    assert marks(copy, "fixed") == {}
    assert list(copy.findings["record"]) == [SWAPPED, COPIED, BOTH, BOTH]
    assert "with aVR and aVF exchanged they agree" in copy.findings["sentence"][0]
    row = copy.index.iloc[copy.row(SWAPPED)]
    np.testing.assert_array_equal(
        copy.recording(SWAPPED).signal, ptbxl.read(faulty / "ptbxl", row).signal
    )
    # part by part, it is the same
    prepare("ptbxl", faulty, tmp_path / "q", limit=12)
    grown = prepare("ptbxl", faulty, tmp_path / "q")
    assert (grown.findings == copy.findings).all(axis=None)
    assert grown.digest == copy.digest

    used = Selection(copy, None, ("suspect_leads", "flat_leads"))
    assert {*copy.index["record"]} - {*used.index["record"]} == {SWAPPED, COPIED, BOTH}
    assert used.left_out == {"suspect_leads": 3, "flat_leads": 0}
    assert used.digest != Selection(copy, None).digest == copy.digest

    known = facts(copy)
    assert known["found"] == {
        "limb leads that do not follow from one another": 2,
        "a lead that is a copy of another": 2,
    }
    text = "\n".join(lines(known))
    assert f"in 2 records; {SWAPPED}: |I + III" not in text
    assert f"in 2 records; {SWAPPED}: |2 aVR + I + II| reaches" in text
    assert f"in 2 records; {COPIED}: V3 equals V2 in all 5,000 samples" in text


def test_fix_restores_the_recording_in_a_copy_of_its_own(
    faulty: Path, tmp_path: Path, ptbxl_copy: ModuleType
) -> None:
    sound = prepare("ptbxl", ptbxl_copy.make(tmp_path / "sound").parent, None)
    plain = prepare("ptbxl", faulty, tmp_path / "p")
    fixed = prepare("ptbxl", faulty, tmp_path / "p", fix=True)
    assert fixed.folder != plain.folder
    assert fixed.digest != plain.digest
    assert (plain.fix, fixed.fix) == (False, True)
    assert find_any("ptbxl", faulty, tmp_path / "p").folder == plain.folder
    assert find_any("ptbxl", faulty, tmp_path / "p", fix=True).folder == fixed.folder
    assert marks(fixed, "fixed") == {SWAPPED: "identities", BOTH: "identities"}
    assert marks(fixed, "found") == {COPIED: "copies", BOTH: "copies"}
    done = fixed.findings[fixed.findings["record"] == SWAPPED]["sentence"].item()
    assert done.startswith("repaired: |2 aVR + I + II| reaches ")
    np.testing.assert_array_equal(fixed.recording(SWAPPED).signal, sound.recording(SWAPPED).signal)
    hashes = [copy.index.set_index("record")["sha256"] for copy in (sound, plain, fixed)]
    assert hashes[0][SWAPPED] == hashes[2][SWAPPED] != hashes[1][SWAPPED]
    assert verify(fixed) == []
    assert verify(plain) == []


def test_a_card_may_quarantine_what_misses_the_identities(
    faulty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = replace(ptbxl.CARD, limb=Limb(within=0.01, beyond="quarantined"))
    monkeypatch.setattr(ptbxl, "CARD", card)
    copy = prepare("ptbxl", faulty, tmp_path / "p")
    assert list(copy.quarantined["record"]) == [SWAPPED, BOTH]
    assert copy.quarantined["reason"][0].startswith("|2 aVR + I + II| reaches ")
    fixed = prepare("ptbxl", faulty, tmp_path / "p", fix=True)
    assert fixed.quarantined.empty
    monkeypatch.setattr(ptbxl, "CARD", replace(ptbxl.CARD, limb=Limb(within=None)))
    assert marks(prepare("ptbxl", faulty, tmp_path / "p"), "found") == {
        COPIED: "copies",
        BOTH: "copies",
    }


def test_as_a_person_types_it(faulty: Path, tmp_path: Path, here: Callable[..., object]) -> None:
    def said(*words: str, code: int = 0) -> str:
        done = here("data", *words, "--data", faulty, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return str(done.stdout + done.stderr)

    text = said("prepare", "ptbxl")
    assert "found: limb leads that do not follow from one another, in 2 records; 00003: " in text
    missing = said("facts", "ptbxl", "--fix", code=2)
    assert f"ecgbench data prepare ptbxl --data {faulty} --fix" in missing
    text = said("prepare", "ptbxl", "--fix")
    assert "repaired: limb leads put right, in 2 records; 00003: |2 aVR" in text
    assert "found: a lead that is a copy of another, in 2 records" in text
    assert "prepared with --fix" in said("facts", "ptbxl", "--fix")
    assert "prepared with --fix" not in said("facts", "ptbxl")
    assert "0 differences in 30 prepared records" in said("check", "ptbxl", "--fix")
