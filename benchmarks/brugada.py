"""Whether lead importance comes out where it is known: Brugada-HUCA, whose syndrome shows in V1 and
V2 and hardly in the limb leads.

`python benchmarks/brugada.py --data DIR` (or ECGBENCH_REAL_DATA or ECGBENCH_DATA; DIR/brugada_huca
as published, complete). Through the prepared store and its folds: median beat of the measured
leads, logistic regression, AUROC for "confirmed or other" as the mean over five folds. Patients of
whom the same recording is are one. Beats are found in the measured leads alone.

With --laef also `ecgbench run` of LAEF on both tasks at the same leads, into --out, and its rows
with their intervals; --weights as there.

Exit 1 where not V1 or V2 alone is above every single limb lead, or where V2 does not add to I+II.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from laef import machine
from scipy.signal import find_peaks
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ecgbench.data.copy import Copy
from ecgbench.data.prepare import prepare
from ecgbench.ecg.leads import LEADS, LIMB, LeadSubset
from ecgbench.errors import MissingData
from ecgbench.stats.auroc import auroc

COLUMN = "brugada_any:confirmed or other"
SETTINGS = ("I", "II", "V1", "V2", "V3", "I+II", "I+II+V2", "V1+V2", "12")
RUN = "I,II,V1,V2,V3,I+II,I+II+V2,12"
EXPECTED = {
    "V2": 0.875,
    "V1": 0.825,
    "I+II": 0.783,
    "I+II+V2": 0.871,
    "V1+V2": 0.891,
    "12": 0.889,
}
"""Another implementation's, on the same release."""
BEFORE, AFTER = 0.25, 0.45
"""Seconds of a beat around its R peak."""
REGULARISATION = 0.01
"""C of the regression; not tuned."""


def subset(setting: str) -> LeadSubset:
    """The leads of a setting, by name."""
    return LeadSubset.parse("+".join(LEADS) if setting == "12" else setting)


def beats(signal: np.ndarray, fs: float) -> np.ndarray:
    """Places of the R peaks in (lead, time): where the slopes of all leads together are steep."""
    slope = np.gradient(signal, axis=1)
    scale = np.percentile(np.abs(slope), 98, axis=1, keepdims=True)
    steep = (np.divide(slope, scale, out=np.zeros_like(slope), where=scale > 0) ** 2).sum(axis=0)
    width = max(1, round(0.1 * fs))
    smooth = np.convolve(steep, np.ones(width) / width, mode="same")
    places, _ = find_peaks(smooth, distance=round(0.4 * fs), height=0.3 * np.percentile(smooth, 98))
    inside = (places >= BEFORE * fs) & (places < signal.shape[1] - AFTER * fs)
    return places[inside]


def median_beat(signal: np.ndarray, fs: float) -> np.ndarray:
    """(lead * time,) of (lead, time) in mV: each beat from its own median, then their median."""
    offsets = np.arange(-round(BEFORE * fs), round(AFTER * fs))
    places = beats(signal, fs)
    if not len(places):
        return np.zeros(len(signal) * len(offsets))
    cut = signal[:, places[:, None] + offsets]  # (lead, beat, time)
    return np.median(cut - np.median(cut, axis=2, keepdims=True), axis=1).ravel()


def importance(copy: Copy, setting: str) -> tuple[float, float]:
    """Mean and standard deviation of the folds' AUROCs at a setting."""
    rows = [LEADS.index(lead) for lead in subset(setting)]
    features = []
    for record in copy.index["record"]:
        recording = copy.recording(record)
        features.append(median_beat(recording.rows[rows].astype(float), recording.fs))
    x, y, fold = np.stack(features), copy.index[COLUMN].to_numpy(), copy.index["fold"].to_numpy()
    scores = []
    for held_out in np.unique(fold):
        train, test = fold != held_out, fold == held_out
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=REGULARISATION, max_iter=2000)
        ).fit(x[train], y[train])
        scores.append(auroc(y[test], model.decision_function(x[test])))
    return float(np.mean(scores)), float(np.std(scores, ddof=1))


def run_laef(data: Path, prepared: Path | str, out: Path, weights: str) -> int:
    """LAEF through the program, and its rows."""
    words = ["run", "--tasks", "brugada,brugada_any", "--models", "laef", "--leads", RUN]
    places = ["--data", str(data), "--prepared", str(prepared), "--out", str(out)]
    for command in (
        [*words, "--weights", weights, "--protocol", "linear", *places],
        ["report", str(out), "--to", str(out / "report")],
    ):
        done = subprocess.run([sys.executable, "-m", "ecgbench", *command])
        if done.returncode:
            return done.returncode
    print((out / "report" / "main_table.md").read_text())
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = os.environ.get("ECGBENCH_REAL_DATA") or os.environ.get("ECGBENCH_DATA")
    parser.add_argument("--data", type=Path, default=usual)
    parser.add_argument("--prepared", type=Path, help="default: a temporary folder")
    parser.add_argument("--laef", action="store_true", help="also run LAEF, some minutes")
    parser.add_argument("--weights", default="released", help="of LAEF, as for ecgbench run")
    parser.add_argument("--out", type=Path, default=Path("runs/brugada"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            copy = prepare("brugada", options.data, options.prepared or Path(folder))
        except MissingData as error:
            print(f"skipped: {error}")
            return 0
        print(f"{machine('cpu')}; {len(copy.index)} records, {copy.index[COLUMN].sum()} positive")
        found = {}
        for setting in (*SETTINGS, *(lead for lead in LIMB if lead not in SETTINGS)):
            found[setting], spread = importance(copy, setting)
            known = f", elsewhere {EXPECTED[setting]:.3f}" if setting in EXPECTED else ""
            print(
                f"{setting:8} AUROC {found[setting]:.3f} (SD of folds {spread:.3f}){known}",
                flush=True,
            )
        limb = max(found[lead] for lead in LIMB)
        holds = max(found["V1"], found["V2"]) > limb and found["I+II+V2"] > found["I+II"]
        print(f"V1 or V2 above every limb lead ({limb:.3f}), V2 adds to I+II: {holds}")
        failed = 0
        if options.laef:
            failed = run_laef(
                options.data, options.prepared or folder, options.out, options.weights
            )
    return int(not holds or failed)


if __name__ == "__main__":
    sys.exit(main())
