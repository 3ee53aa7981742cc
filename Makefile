# `make run` and `make test` do all set-up themselves: a virtual environment in .venv and the
# install. A second make installs nothing: the stamp is renewed when what it lists has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
RUN := OMP_NUM_THREADS=1 $(BIN)/python -m deepnet_theory
OPTIMIZERS := sgd adam lamb
OUT := out
FUZZ := 50
EXECUTE_NOTEBOOKS := false

.DEFAULT_GOAL := help
.PHONY: help run test test-gpu site outputs slow fuzz lint format types contracts notebooks bench mutants docs wheel readme check clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

run: $(STAMP)  ## the main job: rules of three optimizers, measured on text, constants exported
	mkdir -p $(OUT)
	@set -e; for optimizer in $(OPTIMIZERS); do \
	  echo "== $$optimizer"; \
	  $(RUN) report --optimizer $$optimizer --depths 4,8,16,32,64,128,200 --depth 100 --depth 200 \
	    -o $(OUT)/$$optimizer.html; \
	  $(RUN) export --optimizer $$optimizer --depth 200 -o $(OUT)/$$optimizer-200.json; \
	done

FAST := -m "not slow and not notebooks"

test: $(STAMP)  ## the fast tests, on the CPU
	$(BIN)/python -m pytest -n auto --dist worksteal $(FAST) --ignore=tests/site

test-gpu: $(STAMP)  ## the tests that need a GPU
	GPU_TESTS=1 $(BIN)/python -m pytest -m gpu

site: $(STAMP)  ## the tests of README, pages, prose and benchmarks
	$(BIN)/python -m pytest -n auto --dist worksteal $(FAST) tests/site

outputs: $(STAMP)  ## approve what commands print today, to be read as a difference
	APPROVE=1 $(BIN)/python -m pytest -n auto tests/test_outputs.py tests/report tests/models/test_findings.py \
		tests/models/test_outer_words.py

slow: $(STAMP)  ## the tests that take longer
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not notebooks"

fuzz: $(STAMP)  ## hostile input at large: FUZZ times the number that the tests try
	OMP_NUM_THREADS=1 DEEPNET_THEORY_FUZZ=$(FUZZ) $(BIN)/python -m pytest -x tests/fuzz

lint: $(STAMP)  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)  ## fix style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)  ## mypy, strict as pyproject.toml says
	$(BIN)/mypy

contracts: $(STAMP)  ## which room may import which
	$(BIN)/lint-imports

notebooks: $(STAMP)  ## execute the notebooks, the readers' paths and the guide to training
	$(BIN)/python -m pytest -n auto --dist worksteal -m notebooks tests/site tests/test_workflow.py

bench: $(STAMP)  ## measured comparisons
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/cold_start.py

mutants: $(STAMP)  ## errors planted at random, and which of them the fast tests see (hours)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py --sample 300 --seed 0

docs: $(STAMP)  ## the site, in out/site; make docs EXECUTE_NOTEBOOKS=true runs the notebooks
	NO_MKDOCS_2_WARNING=1 EXECUTE_NOTEBOOKS=$(EXECUTE_NOTEBOOKS) $(BIN)/python -m mkdocs build --quiet --strict

wheel: $(STAMP)  ## build the wheel
	$(BIN)/python -m build --wheel --outdir dist

readme: $(STAMP)  ## renew the README's tables and figures, docs/schemes.md and docs/width.md
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/schemes.py
	$(BIN)/python docs/width.py
	$(BIN)/python docs/dials.py
	$(BIN)/python docs/loss.py

check: $(STAMP)  ## the claims of the literature, against their recorded verdicts
	$(RUN) check --no-cache

clean:  ## remove what was made
	rm -rf $(VENV) $(OUT) dist build
