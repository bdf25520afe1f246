"""`python -m ecgbench`: the command line, for torchrun and for places without the `ecgbench`
script.
"""

from ecgbench.cli import main

if __name__ == "__main__":
    main()
