"""Models of other people that misbehave: at import, in their process, towards the run and towards
one another. Whatever they do, the model beside them keeps its numbers.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from tests.soak.place import Place
from tests.soak.row import Row
from tests.test_zoo import ENDING, RAISING, plug_in

EVENT = (
    "[os.write(fd, b'{event}\\n') for fd in range(3, 64) if os.path.exists(f'/proc/self/fd/{{fd}}')"
    " and 'pipe' in os.readlink(f'/proc/self/fd/{{fd}}') and "
    "int(open(f'/proc/self/fdinfo/{{fd}}').read().split('flags:')[1].split()[0], 8) & 3 == 1]"
)
FORGED = {
    "Over": '{"kind": "Over", "job": "1", "answer": {}}',
    "Finished": '{"kind": "Finished", "job": "1", "cells": ["x"], "earlier": false}',
    "Stopped": '{"kind": "Stopped", "job": "1", "error": "BadSetting", "reason": "\\\\u001b[31m"}',
    "Died": '{"kind": "Died", "job": "1", "reason": "x", "log": "/etc/passwd"}',
    "Skipped": '{"kind": "Skipped", "job": "1", "cells": ["tiny"], "reason": "x"}',
    "Failed": '{"kind": "Failed", "job": "1", "cells": ["tiny"], "reason": "", "trace": ""}',
    "half a line": '{"kind": "Started", "job": ',
}
SCORING = "from ecgbench.metrics import auroc; auroc.value = lambda target, score: 1.0"
SCORES = "import ecgbench.results.score as s; s.score_table = lambda *w, **k: 1 / 0"
RANKS = "import numpy; plain = numpy.argsort; numpy.argsort = lambda a, *w, **k: plain(-a, *w, **k)"
KINDS: dict[str, dict[str, str]] = {
    **{name: twist for name, (twist, _) in {**RAISING, **ENDING}.items()},
    **{f"forging {n}": {"before": EVENT.format(event=e)} for n, e in FORGED.items()},
    "leaving at import without a word": {"at_import": "os._exit(0)"},
    "leaving in its network with 0": {"before": "os._exit(0)"},
    "changing the folder at import": {"at_import": "os.chdir('/')"},
    "changing the folder later": {"before": "os.chdir('/')"},
    "changing the threads": {"before": "torch.set_num_threads(3)"},
    "changing the default type": {"at_import": "torch.set_default_dtype(torch.float64)"},
    "changing the seeds": {"before": "torch.manual_seed(0); __import__('random').seed(0)"},
    "patching the metric": {"at_import": SCORING},
    "patching what scores": {"at_import": SCORES},
    "patching numpy's sort": {"at_import": RANKS},
    "a child in its session": {"at_import": "subprocess.Popen(['sleep', '600'])"},
    "a child in a session of its own": {
        "at_import": "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    },
    "a fork that goes on": {
        "before": "os.environ.get('ONCE') or (os.environ.update(ONCE='1'), os.fork())"
    },
    "an endless import": {"at_import": "while True: time.sleep(0.01)"},
    "a signal handler": {
        "at_import": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    },
    "killing its parent's group": {"before": "os.killpg(0, 9)"},
    "an import of the command line": {
        "at_import": "sys.argv = ['ecgbench', 'run']; __import__('ecgbench.cli').cli.main()"
    },
    "closing its output": {"before": "os.close(1); os.close(2)"},
    "warnings as errors": {"at_import": "__import__('warnings').simplefilter('error')"},
    "a trace function": {"at_import": "sys.settrace(lambda *w: 1 / 0)"},
    "an exit hook that hangs": {"at_import": "import atexit; atexit.register(time.sleep, 600)"},
    "a thread that stays": {
        "at_import": "import threading; threading.Thread(target=time.sleep, args=(600,)).start()"
    },
    "a recursion limit": {"at_import": "sys.setrecursionlimit(60)"},
    "a memory limit": {
        "at_import": "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))"
    },
    "printing control characters": {"before": "print('\\x1b[2J\\r' * 1000)"},
    "an excepthook": {"at_import": "sys.excepthook = lambda *w: os._exit(0)"},
}
IN_PROCESS = tuple(RAISING)
"""Those that can be tried without a process of their own, too."""


def rows(bases: Mapping[str, Place]) -> Iterator[Row]:
    """Each as the second model of a study, in workers; those that only raise also in one
    process.
    """
    for name in KINDS:
        act = partial(_joined, name, ("--set", "run.timeout=10"))
        yield Row("plug-ins", f"a model {name}", "second", act)
    for name in IN_PROCESS:
        act = partial(
            _joined,
            name,
            (
                "--engine",
                "inline",
            ),
        )
        yield Row("plug-ins", f"a model {name}, in process", "second", act)


def _joined(name: str, how: tuple[object, ...], place: Place) -> None:
    """The second model is replaced by one that misbehaves, and the run given again."""
    plug_in(place.folder, "second", **KINDS[name])
    place.mark()
    if place.type(*place.words(*how)).code != 2:
        place.report()
