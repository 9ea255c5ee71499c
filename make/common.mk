# What a learner's copy and the project itself share: help, install, learn. Each has a Makefile that includes this
# file and adds its own targets. For Debian, Ubuntu and their kin, with Python 3.11 or newer, python3-venv and make.

PYTHON      ?= python3
PORT        ?= 8888
LAB_ARGS    ?=
PYTEST_ARGS ?=

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

# The pip that Python 3.11 or 3.12 brings takes more than twice as long to find the packages.
PIP         := pip==26.3
# As an option: PIP_NO_COMPILE=1 in the environment means the opposite to pip.
PIP_INSTALL := $(PY) -m pip install --no-compile

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install learn FORCE

# With two colons, a Makefile can add a help of its own, which then follows.
help:: ## show this list
	@echo "usage: make TARGET [VARIABLE=value ...]"
	@echo
	@awk -F '::?.*## ' '/^[a-z-]+::?.*## / { printf "  %-11s %s\n", $$1, $$2 }' make/common.mk Makefile
	@echo
	@echo "variables:"
	@echo "  PYTHON       the Python to build on, 3.11 or newer (now: $(PYTHON))"
	@echo "  TORCH        the torch to install (now: $(TORCH))"
	@echo "  TORCH_INDEX  URL of a further wheel index for torch, for builds without CUDA, for instance"
	@echo "  PORT         where JupyterLab listens (now: $(PORT))"
	@echo "  LAB_ARGS     more options for JupyterLab"
	@echo "  PYTEST_ARGS  more options for pytest, as in PYTEST_ARGS='-k ch01'"

install: $(STAMP) ## set up .venv with the exact versions of requirements.lock

learn: install ## open the course in JupyterLab
	@echo "Starting JupyterLab. If no browser opens, copy the address it prints. Ctrl-C ends it."
	@# default_url rather than a file name: so the printed address leads to the notebook as well.
	@# PATH: so a terminal inside JupyterLab knows the command autograder.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m jupyterlab \
	    --ServerApp.ip=127.0.0.1 --ServerApp.port=$(PORT) --ServerApp.root_dir="$(CURDIR)" \
	    --LabApp.default_url=/lab/tree/course/00_start_here.ipynb $(ALLOW_ROOT) $(LAB_ARGS)

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
	$(PIP_INSTALL) --quiet "$(PIP)"
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") "$(TORCH)"
	@echo "Installing everything else that requirements.lock names"
	@# Without its torch line: that would undo another choice.
	grep -v '^torch==' requirements.lock > $(VENV)/lock-without-torch.txt
	$(PIP_INSTALL) -r $(VENV)/lock-without-torch.txt
	@echo "Installing the autograder, so that changes to it take effect at once"
	@# No build isolation: setuptools is here already, no need to fetch it a second time.
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@echo "Compiling what was installed"
	@# On all cores, for which pip takes one. Some packages carry templates that are no Python: that is no fault.
	@$(PY) -m compileall -qq -j 0 "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
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
