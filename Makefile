# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.11 or newer, make and a compiler; the rest is installed into .venv.

PYTHON ?= python3
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# One file for each subject of the end-to-end tests.
SUBJECTS := activities cancellation children deciders execute projections recovery sessions signals \
	timers versions
QUICK := tests/core tests/contract tests/turns tests/jobs tests/worker \
	tests/testing/test_trial.py tests/lint \
	tests/test_layers.py tests/test_logging.py tests/test_mutants.py tests/test_coverage_page.py \
	$(SUBJECTS:%=tests/engine/test_%.py) --ignore tests/core/test_linear_time.py

.PHONY: demo test check quick format types pyright bench anatomy mutants docs clean

demo: $(STAMP)
	$(BIN)/perdure demo

test: check

# Types are checked beside the tests, and there is a process more than two cores need: tests of leases,
# kills and processes often wait. All that is left out by default: PERDURE_CHAOS_FULL=1 make test
check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy & types=$$!; \
	PERDURE_TYPES_BESIDE=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal; tests=$$?; \
	wait $$types && exit $$tests

# While working: what most mistakes show up in, on one store, in less than a minute.
quick: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pytest -q -n 2 --one-store $(QUICK)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Plain pyright over the files that basedpyright checks in the tests. By hand: its package fetches it from npm.
pyright: $(VENV)/.pyright
	$(BIN)/pyright -p tools/pyright.json

bench: $(STAMP)
	$(BIN)/python -m bench

anatomy: $(STAMP)
	$(BIN)/python -m bench.anatomy

mutants: $(STAMP)
	$(BIN)/python -m tools.mutants

# The book, into site/: open site/index.html. A page, link or anchor that leads nowhere is an error.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.book build/book
	$(BIN)/sphinx-build -q -W --keep-going -c docs build/book site
	@echo 'open site/index.html'

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site

# uv where it is present, pip where it is not.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	if command -v uv >/dev/null 2>&1; \
	then uv pip install --quiet --python $(BIN)/python -e '.[dev]'; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; fi
	touch $(STAMP)

$(VENV)/.pyright: $(STAMP)
	if command -v uv >/dev/null 2>&1; \
	then uv pip install --quiet --python $(BIN)/python pyright; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check pyright; fi
	touch $(VENV)/.pyright

$(VENV)/.docs: $(STAMP)
	if command -v uv >/dev/null 2>&1; \
	then uv pip install --quiet --python $(BIN)/python -e '.[docs]'; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'; fi
	touch $(VENV)/.docs
