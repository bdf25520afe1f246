"""`ecgbench` and `python -m ecgbench`, which torchrun starts too: the command line, quiet from its
first import on.
"""

import sys

from ecgbench.errors import INTERRUPTED, EcgbenchError


def main() -> None:
    """The program (`ecgbench.cli.main`); exit codes 130 and 2 also while it loads."""
    try:
        from ecgbench.cli import main as program

        program()
    except KeyboardInterrupt:
        print(f"ecgbench: {INTERRUPTED}", file=sys.stderr)
        sys.exit(130)
    except EcgbenchError as error:  # of an import: Windows has no locks
        print(f"ecgbench: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
