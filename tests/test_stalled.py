"""Commands that stand still are told from those that work or wait for another."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ecgbench import stalled
from ecgbench.core.files import locked

SECONDS = 0.6


def told(folder: Path, work: Callable[[threading.Event], object]) -> list[str]:
    """The lines that a watch gives while the main thread does `work(told)`."""
    lines: list[str] = []
    came = threading.Event()

    def end(line: str) -> None:
        lines.append(line)
        came.set()

    with stalled.noticed(SECONDS, folder / "logs" / "stalled.log", end):
        work(came)
    return lines


def test_a_main_thread_that_waits_for_ever_is_noticed(tmp_path: Path) -> None:
    """In a function of the package; threads that beat prove nothing."""
    held = threading.Lock()
    held.acquire()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.05):
            pass

    threading.Thread(target=beat, daemon=True).start()

    def wait(came: threading.Event) -> None:
        threading.Thread(target=lambda: came.wait(60) and held.release(), daemon=True).start()
        with held:
            over.set()

    (line,) = told(tmp_path, wait)
    log = tmp_path / "logs" / "stalled.log"
    assert line.startswith("no progress for 0.6 s: it waits")
    assert f"where each thread waits: {log};" in line
    assert "in wait" in log.read_text()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_what_works_or_waits_for_another_command_is_left_alone(tmp_path: Path) -> None:
    enough = 4 * SECONDS

    def compute(came: threading.Event) -> None:
        until = time.monotonic() + enough
        while time.monotonic() < until:
            sum(range(1000))

    def below(came: threading.Event) -> None:
        code = f"import time; u = time.time() + {enough}\nwhile time.time() < u: pass"
        subprocess.run([sys.executable, "-c", code], check=True)

    def wait(came: threading.Event) -> None:
        """Another command holds a lock."""
        code = (
            "import sys, time; from pathlib import Path; from ecgbench.core.files import locked\n"
            f"with locked(Path(sys.argv[1])):\n    print(flush=True); time.sleep({enough})"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            with locked(tmp_path):
                pass

    for work in (compute, below, wait):
        assert told(tmp_path, work) == []
