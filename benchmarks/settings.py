"""What LAEF's lead settings cost beside one evaluation at 12 leads: `1,2,12` by five seeds and the
twelve single leads.

`python benchmarks/settings.py`: records of 10 s, two windows each, through
`evaluate.encode.Encoder` as a run does it, every record on its own. The three runs take turns
record by record; times are medians over the records.
"""

import argparse
import time

import numpy as np
import torch
from timer import machine

from ecgbench.ecg.draw import Count, Fixed, bits
from ecgbench.ecg.leads import ALL, LEADS, LeadSubset
from ecgbench.evaluate.encode import Encoder
from ecgbench.models import laef
from ecgbench.policies.hide import NATIVE, Policy

TARGET, SECONDS = 1.5, 10
DRAWN = [Count(k, seed) for k in (1, 2, 12) for seed in range(5)]
SETTINGS: dict[str, list[Count | Fixed]] = {
    "12 leads": [Fixed(ALL)],
    "1,2,12 x 5 seeds": [*DRAWN],
    "and the twelve": [*DRAWN, *(Fixed(LeadSubset.of(name)) for name in LEADS)],
}


def wanted(settings: list[Count | Fixed], record: str, windows: int) -> dict[int, np.ndarray]:
    """Bit mask -> windows: equal subsets once, as a run asks for them."""
    return {int(bits(s, record, windows)[0]): np.arange(windows) for s in settings}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=32)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    network, contract = laef.build().eval().requires_grad_(False), laef.CARD.contract("paper")
    encoder = Encoder(network, contract, Policy(NATIVE, None))
    taken: dict[str, list[float]] = {name: [] for name in SETTINGS}
    subsets: dict[str, list[int]] = {name: [] for name in SETTINGS}
    draw = np.random.default_rng(0)
    for record in range(-2, options.records):  # the first two warm up
        view = draw.normal(size=(len(LEADS), round(SECONDS * contract.fs))).astype(np.float32)
        for name, settings in SETTINGS.items():
            windows = wanted(settings, str(record), view.shape[1] // contract.samples)
            started = time.perf_counter()
            encoder(view, windows)
            if record >= 0:
                taken[name].append(time.perf_counter() - started)
                subsets[name].append(len(windows))
    print(f"{machine()}, {options.records} records of {SECONDS} s")
    alone = float(np.median(taken["12 leads"]))
    for name, seconds in taken.items():
        ms = float(np.median(seconds)) * 1e3
        note = f" (target {TARGET:g})" if name == "and the twelve" else ""
        print(
            f"  {name:<18}{np.mean(subsets[name]):6.1f} subsets{ms:9.1f} ms a "
            f"record{ms / alone / 1e3:7.2f} times 12 leads{note}"
        )


if __name__ == "__main__":
    main()
