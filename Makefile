# `make demo` and `make test` each set up everything they need, in .venv, and nothing outside it.
# Python 3.11 or newer: the first of these that is there, or name one with `make PYTHON=... test`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN = .venv/bin
FAST = $(addprefix tests/,gate architecture results privacy inference estimators)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

export PRIVSTATS_DATA ?= $(wildcard ../shared/data)

.PHONY: demo test check tests test-all test-oldest benchmarks clean

demo: .venv/demo
	$(BIN)/python vignettes/demo.py

test: check tests

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tests: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

# All tests, the slow ones too, and the fast ones with the oldest versions allowed: half an hour.
test-all: check .venv/test test-oldest
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 -m ""

# What reads cells and prints tables, with the oldest versions that pyproject.toml allows, and with pyarrow.
test-oldest: .venv-oldest/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/pytest --numprocesses 2 $(FAST) privstats README.md

benchmarks: .venv/test
	$(BIN)/python benchmarks/private_bounds.py --seed 1
	for method in matrixt linf hull kng objpert; do $(BIN)/python benchmarks/coverage_lm.py --seed 1 --method $$method || exit 1; done
	for script in real_glm knorm_figure2 peers_logistic hull_moments speed_kng speed_rq knorm_figure3 knorm_figure4 kng_figure1 kng_figure2 speed_rank duff_figure1 vertebral_duff several_quantiles chain_sweeps real_linear choice peers_linear newton_real newton_accuracy tradeoff_figures peers_newton; do \
		$(BIN)/python -m benchmarks.$$script --seed 1 || exit 1; done
	status=0; for script in coverage_location coverage_rq coverage_robust coverage_glm populations hard_cases plans speed_lm; do $(BIN)/python -m benchmarks.$$script --seed 1 || status=1; done; exit $$status

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "privstats needs Python 3.11 or newer on the PATH, or make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[demo]"
	@touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[demo,test]"
	@touch $@

.venv-oldest/test: pyproject.toml constraints-oldest.txt
	@test -n "$(PYTHON)" || { echo "privstats needs Python 3.11 or newer on the PATH, or make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable ".[demo,test]" pyarrow
	@touch $@

clean:
	rm -rf .venv .venv-oldest .pytest_cache .mypy_cache .ruff_cache .hypothesis
