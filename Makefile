# Everything a newcomer types. Each target is complete on a fresh clone that has
# python3, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: draw package help demo test check test-lowest fuzz fuzz-large ruff lint bench bench-all gpu reproduce docs docs-linkcheck test-site clean
# Calls and seconds that `make fuzz` ends after, whichever comes first.
N ?= 1000000
T ?= inf
SEED ?= 0
# What `make reproduce` runs, and where its figures go.
PAPER ?= perceptrons
OUT ?= figures

help:
	@echo "make demo    install into $(VENV) and run the demonstration"
	@echo "make test    lint, types, tests and doctests"
	@echo "make check NAME=GLVQ   the contract tests of one name"
	@echo "make fuzz    call everything public with anything: N=1000000 calls, T=60 seconds"
	@echo "make fuzz-large   models of real sizes against brute force: T=3600 seconds, SEED"
	@echo "make bench   the benchmark tables of benchmarks/README.md; bench-all: every table"
	@echo "make reproduce PAPER=perceptrons   a paper's tables beside ours, and its figures"
	@echo "make gpu     on a machine with a GPU: its tests, and its table against the bars"
	@echo "make docs    the site, into docs/_build/html; docs-linkcheck: do its links lead on?"
	@echo "make test-site   the site, built and looked at in a browser"
	@echo "make clean   remove $(VENV), caches and generated files"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The stamps make a second install a no-op; they depend on what decides what is installed.
# Not compiled: Python compiles what it imports, a fifth of what pip would.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable ".[plot,cli]"
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[plot,cli,data,test]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@ $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/widemargin demo

ruff: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: ruff
	$(BIN)/mypy

# Types are checked while tests wait for something; what mypy says comes after them.
test: ruff
	@nice $(BIN)/mypy > $(VENV)/mypy.txt & mypy=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal; tests=$$?; \
	wait $$mypy; types=$$?; cat $(VENV)/mypy.txt; exit $$((tests | types))

# What the registries of contract tests hold of one name, such as GLVQ or Hinge.
check: $(VENV)/installed-test
	@test -n "$(NAME)" || { echo "make check NAME=GLVQ: say of what"; exit 2; }
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -k "$(NAME)" \
		tests/contract tests/test_sklearn_checks.py tests/_core/test_callbacks.py \
		tests/margins/test_losses.py tests/tangents/test_contract.py \
		tests/metrics/test_distances.py tests/test_imports.py

# The lowest versions that pyproject.toml allows; what they warn of is not ours to mend.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python .ci/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(VENV)-lowest/constraints.txt --editable ".[plot,cli,data,test]"
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -W ignore::DeprecationWarning

fuzz: $(VENV)/installed-test
	$(BIN)/python -m tests.fuzz --calls $(N) --seconds $(T) --seed $(SEED)

# Of real sizes: an hour unless T says otherwise.
fuzz-large: T = 3600
fuzz-large: $(VENV)/installed-test
	$(BIN)/python -m tests.fuzz --large --calls $(N) --seconds $(T) --seed $(SEED)

# The model of the page to draw on, docs/draw/digits.json; needs MNIST, takes a minute.
draw: $(VENV)/installed-test
	$(BIN)/python docs/draw/train.py

package:
	.ci/package $(PYTHON)

# A paper's tables beside ours, and its figures: margin-lvq, reweighting, tangent-kernels,
# perceptrons; records are the library's own. QUICK=--quick is smaller.
reproduce: $(VENV)/installed-test
	$(BIN)/python benchmarks/reproduce.py $(PAPER) $(QUICK) --out $(OUT)

bench: $(VENV)/installed-test
	$(BIN)/python benchmarks/tangent_distances.py
	$(BIN)/python benchmarks/tangents.py

bench-all: bench
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python benchmarks/defaults.py
	$(BIN)/python benchmarks/prototypes.py
	$(BIN)/python benchmarks/tangent_models.py
	$(BIN)/python benchmarks/tangent_kernels.py
	$(BIN)/python benchmarks/mnist.py
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/linear.py
	$(BIN)/python benchmarks/export.py

# With the Python of the machine, which has torch for its GPU: nothing is installed.
# DATA is a folder of MNIST's four files, COMMIT a name where there is no repository.
gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -q tests/_compute/test_device.py \
		tests/_compute/test_device_kernels.py
	PYTHONPATH=src $(PYTHON) benchmarks/gpu.py --write \
		$(if $(DATA),--data $(DATA)) $(if $(COMMIT),--commit $(COMMIT))

# Without a network too: other libraries' pages are linked only where they can be reached.
# Pages are read anew (-E): the search forgets index entries of pages that did not change.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -E -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# The site in a browser: what it shows, finds, weighs, and where its links lead.
test-site: docs $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[browser]" \
		|| echo "no playwright: browser tests skip"
	WIDEMARGIN_SITE=docs/_build/html \
		$(BIN)/python -m pytest -n 2 --dist worksteal tests/browser/test_site.py

docs-linkcheck: docs
	$(BIN)/python -m sphinx -b linkcheck docs docs/_build/linkcheck

clean:
	rm -rf docs/_build docs/drawn docs/examples docs/reference docs/benchmarks
	rm -rf $(VENV) $(VENV)-lowest .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
