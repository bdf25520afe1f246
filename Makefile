# Everything runs in .venv, with the versions of constraints.txt. `make` alone prints what there is.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,$(shell $(p) -c $(NEW_ENOUGH) 2>/dev/null && echo $(p))))
NEW_ENOUGH := 'import sys; sys.exit(sys.version_info < (3, 11))'
WORKERS ?= 2
PIP_AUDIT := 2.10.1
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet --constraint constraints.txt
# on Linux on x86-64 all but torch is installed as the files whose hashes lock/ holds
LOCKED := $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -))
LOCK := $(BIN)/pip --disable-pip-version-check install --quiet --require-hashes --no-deps --only-binary :all: --requirement
ECGBENCH := $(PIP) $(if $(LOCKED),--no-build-isolation) --editable
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist loadfile

help:  ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/.package  ## run LAEF and ST-MEM on synthetic recordings with 1, 2 and 12 leads, and write the report
	@echo "The demo takes about 3 minutes on two cores (2 min 30 s on a Xeon at 2.5 GHz): two models, 100 synthetic recordings"
	$(BIN)/ecgbench run --models laef,stmem --leads 1,2,12 --limit 100
	@echo "The report: runs/demo/report/index.html (opens in any browser)"

test: .venv/.dev  ## what must hold, in 5 minutes; ECGBENCH_REAL_DATA names genuine recordings, WORKERS the processes (2)
	@echo "The tests take about 5 minutes on two cores; make test-long runs the slower ones, about 18 minutes"
	$(PYTEST) -m "not long"

test-long: .venv/.dev  ## the slower tests
	@echo "The slower tests take about 18 minutes on two cores"
	$(PYTEST) -m long

soak: .venv/.dev  ## every fault of docs/explanation/reliability.md, whose table it writes (SOAK="words of a name": those alone)
	$(BIN)/python -m tests.soak --workers $(WORKERS) "$(SOAK)"

wheel: .venv/.dev  ## build and check sdist and wheel (dist/), install the wheel outside the checkout, test it there
	$(BIN)/python .ci/wheel.py

lowest:  ## the tests with the lowest stated versions of the pure-Python dependencies, in .venv-lowest
	"$(PYTHON)" .ci/lowest.py

check: .venv/.dev  ## lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/.dev  ## every timing in benchmarks/, one after the other
	set -e; for f in $(filter-out benchmarks/gpu.py benchmarks/timer.py,$(wildcard benchmarks/*.py)); do echo "== $$f"; $(BIN)/python $$f; done

gpu: .venv/.dev  ## what all of it does on a GPU, into runs/gpu
	$(BIN)/python benchmarks/gpu.py --to runs/gpu

docs: .venv/.dev  ## the site, into build/site; its tutorials run, which takes minutes
	$(BIN)/python tools/site.py
	OMP_NUM_THREADS=1 $(BIN)/mkdocs build
	@echo "The site: build/site/index.html (opens in any browser)"

lock: .venv/.dev  ## write lock/ anew from constraints.txt (after a change of either; needs uv on the PATH)
	$(BIN)/python .ci/lock.py

audit:  ## look for known weaknesses in the versions of constraints.txt (pip-audit, in .venv-audit)
	"$(PYTHON)" -m venv .venv-audit
	.venv-audit/bin/pip --disable-pip-version-check install --quiet pip-audit==$(PIP_AUDIT)
	.venv-audit/bin/pip-audit --no-deps --disable-pip --requirement constraints.txt

clean:  ## remove .venv, caches and build products; runs/ and downloads stay
	rm -rf .venv .venv-lowest .venv-audit build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c $(NEW_ENOUGH) 2>/dev/null || { \
	  echo "ecgbench needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not. Name one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv. On Debian and Ubuntu: apt-get install python3-venv, then make $(MAKECMDGOALS) again" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv

.venv/.package: pyproject.toml constraints.txt lock/linux.txt | $(BIN)/pip
	@echo "Installing the pinned dependencies into .venv (a minute or two; longer where torch comes with CUDA) ..."
	$(if $(LOCKED),$(LOCK) lock/linux.txt)
	$(ECGBENCH) '.[formats,graph,timm]'
	@touch $@

.venv/.dev: pyproject.toml constraints.txt lock/linux.txt lock/linux-dev.txt | $(BIN)/pip
	@echo "Installing the pinned dependencies into .venv, those for development too ..."
	$(if $(LOCKED),$(LOCK) lock/linux-dev.txt)
	$(ECGBENCH) '.[dev]'
	@touch $@ .venv/.package

.PHONY: help demo test test-long soak wheel lowest check bench gpu docs lock audit clean
