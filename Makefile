# Everything a person or CI calls; `make` alone lists it. `make sweep` and `make test` make what is missing first.

PYTHON ?= python3
BIN := .venv/bin
TORCH ?= $(patsubst .venv/torch-%,%,$(wildcard .venv/torch-*))# the build named last
STORE ?= results
SWEEP_OPTIONS ?=
GPU_OUT ?= gpu
PARALLEL := -n 2 --dist loadscope --no-loadscope-reorder
COVER := --cov --cov-append --cov-report= --cov-fail-under=0
# What failed runs once more by itself, so that an hour is not lost to a busy machine; the first failure stays printed.
TWICE = $(1) || $(1) --last-failed --last-failed-no-failures none
unexport PYTHONDONTWRITEBYTECODE  # else every process of a test compiles the whole project again

.DEFAULT_GOAL := help
.PHONY: help sweep dashboard test test-slow test-cluster test-browser test-deploy coverage bench bench-dashboard gpu chaos calibration lint docs audit setup servers clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 17

sweep: .venv/sweep ## run the starter sweep: real freezing trials on two small treebanks; ends with its report
	$(BIN)/permafrost launch --store $(STORE) $(SWEEP_OPTIONS)
	$(BIN)/permafrost report $(STORE) starter --no-pictures --no-answers

dashboard: .venv/sweep ## browse the results
	$(BIN)/permafrost dashboard $(STORE)

test: .venv/ready ## every promise once, in three minutes on two idle cores
	$(BIN)/python -m pytest -m "not slow and not cluster and not browser" $(PARALLEL)

test-slow: .venv/ready ## the long tests too, and all examples of those that draw them; 20 minutes
	PERMAFROST_ALL_EXAMPLES=1 $(BIN)/python -m pytest -m "not cluster and not browser" $(PARALLEL)

test-cluster: .venv/ready ## sweeps on Ray: several machines, lost workers, autoscaling; a quarter of an hour
	$(BIN)/python -m pytest -m cluster

test-browser: .venv/ready ## every promise of the dashboard in a Chromium, behind a proxy too (apt install chromium nginx-light)
	$(BIN)/python -m pytest -m browser

test-deploy: .venv/ready ## the cpu image built and run, Ray with TLS; run as root; installs Debian packages
	tests/lab/deploy/prepare.sh
	PERMAFROST_DEPLOY=1 $(BIN)/python -m pytest tests/docker tests/lab/deploy

coverage: .venv/ready ## all tests but the slow ones with a browser or Ray, those of make test under coverage; what CI runs
	rm -f .coverage .coverage.*
	$(call TWICE,$(BIN)/python -m pytest -m "not slow and not cluster and not browser" $(PARALLEL) $(COVER))
	$(call TWICE,$(BIN)/python -m pytest -m "slow and not cluster and not browser" $(PARALLEL))
	$(call TWICE,$(BIN)/python -m pytest -m "browser and not slow")
	$(call TWICE,$(BIN)/python -m pytest -m "cluster and not slow")
	$(BIN)/coverage report

bench: .venv/ready ## our sweep against the same work in transformers.Trainer and Ray Tune; an idle machine, half an hour
	$(BIN)/python -m tests.lab.benchmarks.bench

bench-dashboard: .venv/sweep ## the dashboard over 100,000 and 1,000,000 evaluations; an idle machine, ten minutes
	$(BIN)/python -m tests.lab.benchmarks.dashboard

gpu: .venv/ready ## on a machine with a GPU (make setup TORCH=cuda): the starter launched, stopped, resumed and packed, then exactness, steps, energy; nine minutes at most
	$(BIN)/python -m tests.lab.gpu --out $(GPU_OUT)

chaos: .venv/ready ## 20 sweeps on a cluster of three nodes and 20 of three drivers that share a store, which lose processes at seeded moments; all orders of drivers' steps; an hour
	$(BIN)/python -m tests.lab.chaos --runs 20
	$(BIN)/python -m tests.lab.chaos --runs 20 --cluster inline --drivers 3
	PERMAFROST_EXHAUSTIVE=1 $(BIN)/python -m pytest -m slow tests/orchestrator/claims

calibration: .venv/ready ## simulated sweeps and halves of real ones: coverage, wrong verdicts, collapses, power, each beside its goal; ten minutes
	$(BIN)/python -m tests.lab.calibration

docs: .venv/ready ## build the documentation into docs/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet -f docs/mkdocs.yml

lint: .venv/ready ## style, types, the direction of imports, and how much a person has to hold
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy docker/entrypoint.py
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.lab.structure
	$(BIN)/shellcheck docker/*.sh docker/slurm/*.sbatch tests/lab/deploy/*.sh
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/compose-lint docker/compose.yaml docker/compose.gpu.yaml

audit: .venv/ready ## known holes of the pinned dependencies, and whether their hashes are the index's, where either can be reached
	$(BIN)/python -m tests.security.audit
	$(BIN)/python -m tests.security.hashes

setup: .venv/ready ## make .venv with the pinned dependencies and the tools of tests, lint and docs; TORCH=cuda, cu126 or cpu names the build of torch, else the machine decides

# Named once, a build of torch stays until another is named; docker/install.sh says what is taken where none was.
.venv/sweep: pyproject.toml constraints.txt docker/install.sh $(wildcard docker/hashes/*.txt) $(TORCH:%=.venv/torch-%)
	docker/install.sh --editable --venv .venv --python $(PYTHON) $(TORCH:%=--%)
	touch $@

.venv/torch-%:
	mkdir -p .venv
	rm -f .venv/torch-*
	touch $@

.venv/ready: .venv/sweep
	docker/install.sh --dev --venv .venv --python $(PYTHON)
	touch $@

servers: .venv/servers/ready ## make .venv/servers for tests: MLflow, Kubernetes' schemas; their dependencies do not fit beside our pins

.venv/servers/ready: .venv/ready
	$(PYTHON) -m venv .venv/servers
	.venv/servers/bin/pip install --quiet --disable-pip-version-check mlflow==3.17.2 kubernetes-validate==1.37.0
	touch $@

clean: ## remove what was made, but no results
	rm -rf .venv docs/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist
