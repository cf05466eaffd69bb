# Everything a person or CI calls. `make sweep` and `make test` make what is missing first.

PYTHON ?= python3
BIN := .venv/bin
STORE ?= results

.PHONY: sweep test test-slow bench lint setup clean

sweep: .venv/ready ## run the starter sweep: real freezing trials on two small treebanks
	$(BIN)/python -m orchestrator.launch --store $(STORE)

test: .venv/ready ## the tests, with the coverage floor
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadscope --cov --cov-report=term

test-slow: .venv/ready ## all tests, the long ones too
	$(BIN)/python -m pytest

bench: .venv/ready ## our sweep against the same work in transformers.Trainer and Ray Tune; an idle machine, half an hour
	$(BIN)/python -m tests.benchmarks.bench

lint: .venv/ready ## style, types, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

setup: .venv/ready ## make .venv with the pinned dependencies

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; give one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean: ## remove what was made, but no results
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist
