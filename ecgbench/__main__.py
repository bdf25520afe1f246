"""`ecgbench` and `python -m ecgbench`, which torchrun starts too: the command line, quiet from its
first import on.
"""

import sys

from ecgbench.errors import INTERRUPTED


def main() -> None:
    """The program (`ecgbench.cli.main`); exit code 130 after Ctrl-C, also while it loads."""
    try:
        from ecgbench.cli import main as program

        program()
    except KeyboardInterrupt:
        print(f"ecgbench: {INTERRUPTED}", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
