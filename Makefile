# For Debian, Ubuntu and their kin, with Python 3.11 or newer, python3-venv and make.
# `make` alone lists what there is to do.

PYTHON      ?= python3
PORT        ?= 8888
LAB_ARGS    ?=
PYTEST_ARGS ?=

# How many processes share the tests; tests that take times take turns all the same.
JOBS ?= 2

# Where pip may find other builds of torch, such as the small ones without GPU support.
# Empty: the usual build, which on Linux comes with CUDA and takes some gigabytes.
TORCH_INDEX ?=

VENV  := .venv
BIN   := $(VENV)/bin
PY    := $(BIN)/python
STAMP := $(VENV)/installed

# The torch to install. Another choice (make install TORCH=torch==2.14.0) is noted in .venv, so that
# a later `make test` doesn't go back to the usual one.
USUAL_TORCH   := torch==2.13.0
CHOICE        := $(VENV)/chosen-torch
CURRENT_TORCH := $(or $(shell cat $(CHOICE) 2>/dev/null),$(USUAL_TORCH))
TORCH         ?= $(CURRENT_TORCH)

# JupyterLab refuses to run as root (in a container, say) unless told that it is meant.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install learn test test-fast build prove bench lint lock clean distclean FORCE

help: ## show this list
	@echo "usage: make TARGET [VARIABLE=value ...]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "variables:"
	@echo "  PYTHON       the Python to build on, 3.11 or newer (now: $(PYTHON))"
	@echo "  TORCH        the torch to install (now: $(TORCH))"
	@echo "  TORCH_INDEX  URL of a further wheel index for torch, for builds without CUDA, for instance"
	@echo "  PORT         where JupyterLab listens (now: $(PORT))"
	@echo "  LAB_ARGS     more options for JupyterLab"
	@echo "  PYTEST_ARGS  more options for pytest, as in PYTEST_ARGS='-k wire'"
	@echo "  JOBS         how many processes share the tests of make test (now: $(JOBS))"

install: $(STAMP) ## set up .venv with the exact versions of requirements.lock

learn: install ## open the course in JupyterLab
	@echo "Starting JupyterLab. If no browser opens, copy the address it prints. Ctrl-C ends it."
	@# default_url rather than a file name: so the printed address leads to the notebook as well.
	@# PATH: so a terminal inside JupyterLab knows the command autograder.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m jupyterlab \
	    --ServerApp.ip=127.0.0.1 --ServerApp.port=$(PORT) --ServerApp.root_dir="$(CURDIR)" \
	    --LabApp.default_url=/lab/tree/course/00_start_here.ipynb $(ALLOW_ROOT) $(LAB_ARGS)

test: install ## run all tests
	$(PY) -m pytest tests -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

test-fast: install ## run the tests that take no more than a few seconds each
	$(PY) -m pytest tests -m "not slow" $(PYTEST_ARGS)

build: install ## make notebooks and exercises from their sources
	$(PY) -m autograder.build

prove: install ## show that each exercise accepts the solution and catches the known wrong answers
	$(PY) -m autograder.prove

bench: install ## run each file of benchmarks/ in turn
	@for file in benchmarks/*.py; do \
	    test -e "$$file" || { echo "There is nothing in benchmarks/ yet."; exit 0; }; \
	    echo "== $$file"; \
	    $(PY) "$$file" || exit 1; \
	done

lint: install ## check style, types and which module imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir .cache/import-linter

# It doesn't depend on install, which would undo the upgrades that are to be written down.
# What torch brings along for a graphics card is left out: it differs from machine to machine, and
# torch itself asks for the exact versions.
lock: | $(PY) ## write requirements.lock anew from what .venv holds (upgrade there first)
	@echo "Writing the versions in $(VENV) to requirements.lock"
	$(PY) -m pip check
	@$(PY) -m pip list --format=freeze --exclude pip --exclude wheel --exclude torch-clinic > $(VENV)/versions.txt
	@sed '/^#/!d' requirements.lock > $(VENV)/new.lock
	@sed -E -e '/^(nvidia|cuda|triton|pytorch-triton)[-_=]/d' \
	    -e 's/^(torch==[^+]*)\+.*/\1/' \
	    -e 's/^sandlock==.*/& ; sys_platform == "linux"/' $(VENV)/versions.txt >> $(VENV)/new.lock
	mv $(VENV)/new.lock requirements.lock
	@echo "Done. If direct dependencies moved, change environment.yml and the Makefile's USUAL_TORCH"
	@echo "to match; make test compares."

clean: ## remove caches and build leftovers, never anybody's work
	rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist *.egg-info
	find autograder tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## the same, and remove .venv too
	rm -rf $(VENV)

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "This course needs Python 3.11 or newer; \"$(PYTHON)\" is older or isn't there."; \
	    echo "If you have a newer one under another name: make install PYTHON=python3.12"; \
	    echo "If not, on Debian or Ubuntu: sudo apt-get install python3 python3-venv"; \
	    exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "This Python can't make virtual environments yet."; \
	    echo "On Debian or Ubuntu: sudo apt-get install python3-venv"; \
	    exit 1; }
	@echo "Making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

# Newer than the two files it depends on: there is nothing to do, and make sees it at once.
$(STAMP): requirements.lock pyproject.toml | $(PY)
	@echo "Installing $(TORCH)"
	$(PY) -m pip install $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") "$(TORCH)"
	@echo "Installing everything else that requirements.lock names"
	@# Without its torch line: that would undo another choice.
	grep -v '^torch==' requirements.lock > $(VENV)/lock-without-torch.txt
	$(PY) -m pip install -r $(VENV)/lock-without-torch.txt
	@echo "Installing the autograder, so that changes to it take effect at once"
	@# No build isolation: setuptools is here already, no need to fetch it a second time.
	$(PY) -m pip install --no-deps --no-build-isolation -e .
	@# JupyterLab would ask each learner whether to fetch news and look for updates: no, twice.
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' \
	    > $(VENV)/share/jupyter/lab/settings/overrides.json
	@echo '$(filter-out $(USUAL_TORCH),$(TORCH))' > $(CHOICE)
	@touch $(STAMP)
	@echo "Done. Now: make learn"

# Another torch was asked for than the one that is installed.
ifneq ($(strip $(TORCH)),$(CURRENT_TORCH))
$(STAMP): FORCE
endif
