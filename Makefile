# `make demo` and `make test` each set up everything they need, in .venv, and nothing outside it.
# Python 3.11 or newer: the first of these that is there, or name one with `make PYTHON=... test`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN = .venv/bin
FAST = $(addprefix tests/,formula gate architecture results privacy inference estimators)
QUICK = $(addprefix tests/,$(addprefix architecture/test_,layers.py losses.py reading_lists.py) sets gate privacy golden)
# Each script that is run by itself; the gallery runs others, and workers of other packages' environments are started
# by peers_*.
SCRIPTS = $(filter-out %worker gallery,$(basename $(notdir $(shell grep -l __main__ benchmarks/*.py))))
TIMED = $(filter speed% duff_figure1 passes sources,$(SCRIPTS))
BENCHMARKS = $(filter-out $(TIMED) coverage_lm,$(SCRIPTS)) $(addprefix coverage_lm@,matrixt linf hull kng objpert)
VIGNETTES = $(shell grep -l "^. %% .markdown." vignettes/*.py)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable

export PRIVSTATS_DATA ?= $(wildcard ../shared/data)
unexport PYTHONDONTWRITEBYTECODE # what one process has compiled, the others read

.PHONY: demo test quick check compiled tests test-all test-oldest benchmarks figures docs clean

demo: .venv/demo
	$(BIN)/python vignettes/demo.py

# On two cores; mypy takes one, and what is imported is compiled meanwhile on the other.
test: .venv/test
	$(MAKE) --no-print-directory --jobs 2 check compiled
	$(MAKE) --no-print-directory tests

# Half a minute: who imports whom, what a reviewer reads, sets, the gate, promises, and that no number has changed.
quick: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 $(QUICK)

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Modules and the asserts of tests are compiled once, not by each of two workers; a test that cannot be imported fails.
compiled: .venv/test
	@found=$$($(BIN)/pytest --collect-only -qq) || { echo "$$found"; exit 1; }

tests: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

# All tests, the slow ones too, the site, and the fast tests with the oldest versions allowed: half an hour.
test-all: check .venv/test .venv/spark test-oldest docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 -m ""

# What reads cells and prints tables, with the oldest versions that pyproject.toml allows, and with pyarrow.
test-oldest: .venv-oldest/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/pytest --numprocesses 2 $(FAST) privstats README.md

# The figures of the papers and their tables, for the gallery of the site: hours, or minutes with QUICK=1.
figures: .venv/test
	$(BIN)/python -m benchmarks.gallery --seed 1 $(if $(QUICK),--quick)

# The site, in site/: open site/index.html. A warning fails. Vignettes are run first, where they or the package changed.
docs: .venv-docs/docs $(VIGNETTES:vignettes/%.py=build/vignettes/%.ipynb)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict

# All scripts, whatever each says: those that measure time alone, then two at a time. What each prints is in
# build/benchmarks, and is kept while no source changes, so that a run that was interrupted goes on. Names of those that
# failed come at the end.
benchmarks: .venv/test
	@$(MAKE) --no-print-directory --keep-going $(TIMED:%=build/benchmarks/%.txt); \
	$(MAKE) --no-print-directory --keep-going --jobs 2 $(BENCHMARKS:%=build/benchmarks/%.txt); \
	! ls build/benchmarks/*.failed 2> /dev/null

build/benchmarks/%.txt: $(shell find privstats benchmarks -name '*.py') | .venv/test
	@mkdir -p $(@D) && rm -f $(@:.txt=.failed) && start=$$(date +%s) && \
	if OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.$(subst @, --method ,$*) --seed 1 > $@.part 2>&1; \
	then mv $@.part $@; said=met; else mv $@.part $(@:.txt=.failed); said=FAILED; fi; \
	echo "$$said $* ($$(($$(date +%s) - start)) s): $$(tail -n 1 $(@:.txt=.*) | cut -c 1-100)"; test $$said = met

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "privstats needs Python 3.11 or newer on the PATH, or make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[demo]"
	@touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) ".[demo,test]"
	@touch $@

# Large, and of use where there is a machine of Java.
.venv/spark: .venv/test
	$(INSTALL) ".[spark]"
	@touch $@

.venv-oldest/test: pyproject.toml constraints-oldest.txt
	@test -n "$(PYTHON)" || { echo "privstats needs Python 3.11 or newer on the PATH, or make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable ".[demo,test]" pyarrow
	@touch $@

build/vignettes/%.ipynb: vignettes/%.py docs/notebooks.py $(shell find privstats -name '*.py') | .venv-docs/docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-docs/bin/python docs/notebooks.py $< $@

.venv-docs/docs: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "privstats needs Python 3.11 or newer on the PATH, or make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $@

clean:
	rm -rf .venv .venv-oldest .venv-docs build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
