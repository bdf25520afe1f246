"""Protocol `shipped`: authors' own classifiers, read from their files, and labels by codes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from ecgbench import datasets, models
from ecgbench.cards.model import Classifier
from ecgbench.check import rule
from ecgbench.errors import BadWeights
from ecgbench.evaluate.predict import probabilities
from ecgbench.evaluate.protocols import shipped
from ecgbench.reports import sections, summary
from ecgbench.results.study import read
from ecgbench.results.verdicts import verdicts
from ecgbench.weights import classifier

PACKS = Path(__file__).parents[1] / "data" / "parity"
KNOWN = [
    (name, weights.classifier)
    for name in models.names()
    for weights in models.ROOM.card(name).weights
    if weights.classifier
]


CLASSES = Path(models.__file__).parent / "classes"
FEWER = """
from dataclasses import replace
from ecgbench.models import limb6_rhythm as own

(W,) = own.CARD.weights
W = replace(W, classifier=replace(W.classifier, table={table!r}))
CARD = replace(own.CARD, name="", title="Fewer", weights=(W,))
build = own.build
"""


def of_pack(prefix: str, classes: int, dim: int) -> dict[str, torch.Tensor]:
    """A head with the numbers of a parity pack."""
    shapes = {f"{prefix}weight": (classes, dim), f"{prefix}bias": (classes,)}
    return {n: torch.from_numpy(rule.weight(n, shape, "public-0")) for n, shape in shapes.items()}


@pytest.mark.parametrize("kept", [False, True])
def test_heads_give_the_logits_of_the_authors_code(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the file itself, and as kept beside its conversion."""
    monkeypatch.setenv("ECGBENCH_WEIGHTS", str(tmp_path / "cache"))
    twelve = "golden_seed0 features_T1250 logits150_T1250"
    lead_i = "golden_1lead_seed0 features_T5000 logits150_T5000"
    for name, word, container, prefix, numbers in (
        ("ecgfounder", "released", "state_dict", "dense.", twelve),
        ("ecgfounder1lead", "released", "state_dict", "dense.", lead_i),
        ("ecgfm", "released-mimic", "model", "proj.", "golden_seed0 feat logits17"),
    ):
        pack, *arrays = numbers.split()
        card = models.ROOM.card(name)
        golden = np.load(PACKS / name.removesuffix("1lead") / f"{pack}.npz")
        features, logits = (golden[one] for one in arrays)
        file = tmp_path / f"{name}.pth"
        torch.save({container: of_pack(prefix, logits.shape[1], features.shape[1])}, file)
        if kept:
            layout = next(w for w in card.weights if w.name == word)
            classifier.keep(name, layout, card, file)
            place = classifier.released.converted(name, word)
            for part in (place, place.with_suffix(".json")):  # the network itself is not read
                part.write_text("{}")
        head = classifier.head(card, word if kept else str(file))
        assert head is not None
        np.testing.assert_allclose(features @ head.weight.T + head.bias, logits, atol=2e-5)


def test_a_head_of_other_classes_is_refused(tmp_path: Path) -> None:
    card = models.ROOM.card("ecgfounder")
    save_file(of_pack("dense.", 5, 1024), tmp_path / "other.safetensors")
    with pytest.raises(BadWeights, match="150 classes"):
        classifier.head(card, str(tmp_path / "other.safetensors"))
    save_file(of_pack("fc.", 5, 1024), tmp_path / "none.safetensors")
    assert classifier.head(card, str(tmp_path / "none.safetensors")) is None


@pytest.mark.parametrize(("name", "known"), KNOWN)
def test_each_code_is_of_one_class(name: str, known: Classifier) -> None:
    codes = [code for one in known.classes for code in one.codes]
    assert len(codes) == len(set(codes)) > 0
    ptbxl = {
        c for own in datasets.vocabulary(datasets.tasks()["ptbxl_all"][2]).values() for c in own
    }
    assert {c for c in codes if c.startswith("SCP")} <= ptbxl


def test_the_classes_of_ecgfounder_are_in_the_order_of_its_authors() -> None:
    """By the SHA-256 of their list, one name a line."""
    (known,) = (known for name, known in KNOWN if name == "ecgfounder")
    lines = "".join(f"{one.name}\n" for one in known.classes)
    assert hashlib.sha256(lines.encode()).hexdigest() == (
        "7c087a0d383c7ea9ae9b818ad00a551b029334edfa5f1fbb5036bfbaa0df0c39"
    )


def test_labels_are_met_by_their_codes_and_not_by_their_spelling() -> None:
    (hubert,) = (known for name, known in KNOWN if name == "hubertecg")

    def met(task: str) -> dict[str, str]:
        found = shipped.classes_of(datasets.tasks()[task][2], hubert)
        return {label: hubert.classes[at].name for label, at in found.items()}

    assert len(hubert.classes) == 164
    rhythms = met("ptbxl_rhythm")
    assert (rhythms["AFIB"], rhythms["AFLT"], rhythms["SVTAC"]) == ("AF", "AFL", "SVT")
    assert {"NORM", "AMI"} & {*met("ptbxl_all").values()} == set()
    assert met("cpsc2018")["ventricular ectopics"] == "VEB"
    assert len(met("ningbo")) > 40
    assert met("chapman") == {}, "AF is atrial flutter there"


def test_a_softmax_is_over_all_classes_and_an_unknown_label_is_no_number() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=3)
    each = np.exp(x @ weight.T + bias)
    each /= each.sum(axis=1, keepdims=True)
    found = probabilities(x, np.array([0, 0, 1]), weight, bias, np.array([2, -1, 0]))
    np.testing.assert_allclose(found[:, 0], [each[:2, 2].mean(), each[2, 2]])
    np.testing.assert_allclose(found[:, 2], [each[:2, 0].mean(), each[2, 0]])
    assert np.isnan(found[:, 1]).all()


def test_a_run_of_what_is_shipped(
    typed: Callable[..., int], fake_ptbxl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    own = ["--protocol", "shipped", "--models", "limb6_rhythm", "--data", str(fake_ptbxl)]
    own += ["--prepared", str(tmp_path / "prepared"), "--leads", "I+II,I"]
    words = [*own, "--tasks", "ptbxl_rhythm", "--weights", "released", "--train-leads", "same"]
    assert typed(run, *words) == 0
    assert "mean over 2 of 12 labels of PTB-XL Rhythm" in "\n".join(summary(read(run), None))
    results = {str(r.cell.setting): r for r in read(run).results}
    scores = results["I"].scores().set_index("label")
    assert np.isfinite(scores.loc[["macro", "AFIB", "SR"], "value"]).all()
    assert scores["value"].isna().sum() == 10
    assert (scores.loc["PACE", "n"], scores.loc["AFIB", "n"]) == (0, 7)
    fit = json.loads((results["I"].fit_folder / "fit.json").read_text())
    assert fit["classes"] == {"AFIB": "af-like", "SR": "sinus-rhythm-like"}
    assert fit["records"] == 0
    head = load_file(results["I"].fit_folder / "head.safetensors")
    assert head["weight"].shape == (3, 128)
    told = pd.read_parquet(results["I"].fit_folder / "validation.parquet")
    assert (told["target:PACE"] == -1).all()
    assert set(told["target:AFIB"]) == {0, 1}

    # of another classifier, which knows one label less: they are side by side and not compared
    table = pd.read_csv(CLASSES / "limb6_rhythm.csv", dtype=str, keep_default_na=False)
    table.loc[table["scp"] == "SR", ["scp", "snomed"]] = ""
    table.to_csv(tmp_path / "fewer.csv", index=False)
    (tmp_path / "fewer.py").write_text(FEWER.format(table=str(tmp_path / "fewer.csv")))
    assert typed(run, *words, "--models", f"limb6_rhythm,{tmp_path / 'fewer.py'}") == 0
    both = read(run)
    assert set(both.main["status"]) == {"ok"}
    assert len(verdicts(both)) > 0
    assert both.comparisons.empty
    said = "\n".join(summary(both, None))
    assert "mean over 2 (Limb6-rhythm) and 1 (Fewer) of 12 labels of PTB-XL Rhythm" in said
    notes = "\n".join(map(str, both.notes))
    for title, known in (("Limb6-rhythm", 2), ("Fewer", 1)):
        assert f"{12 - known} labels unknown to the classifier of {title}, left out" in notes
    assert "in the test set, left out" not in notes
    assert not any("of 71 labels" in str(note) for note in both.main["note"])
    assert (verdicts(both)["chance"] == "not known").sum() == 2 * (10 + 11)
    texts = [
        t for s in sections("operating", both) for p in s.parts for t in getattr(p, "texts", ())
    ]
    assert any("Rhythm: left out AFIB and SR: fewer than" in text for text in texts)
    assert any("TRIGU and SR: of no record are its value and a pred" in text for text in texts)
    assert "the classifier in its file of weights is scored" in said
    assert "chance" not in said.partition("AUROC × 100")[0], "no difference of other means"

    capsys.readouterr()
    for words, said in (
        ([*own, "--tasks", "ptbxl_super", "--weights", "released"], "af-like"),
        ([*own, "--tasks", "ptbxl_rhythm", "--weights", "random"], "classifier"),
        ([*own, "--tasks", "ptbxl_rhythm", "--train-leads", "random"], "nothing is trained"),
    ):
        assert typed(tmp_path / "other", *words) == 2
        assert said in capsys.readouterr().err
