# For work on the course itself; `make` alone lists what there is to do. How things are set up, and how the course is
# opened, is in make/common.mk, which learners' copies have as well.

include make/common.mk

# How many processes share the tests; tests that take times take turns all the same.
JOBS ?= 2

.PHONY: test test-all test-fast hostile build prove release site bench lint lock clean distclean

help::
	@echo "  JOBS         how many processes share the tests of make test (now: $(JOBS))"

SHARED := -n $(JOBS) --dist loadfile --no-loadscope-reorder

test: install ## run the tests; of what is tried in many forms, some
	$(PY) -m pytest tests $(SHARED) -m "not thorough" $(PYTEST_ARGS)

test-all: install ## run the tests in all forms but those of make prove, an hour and a half
	HOSTILE_SHARE=1 $(PY) -m pytest tests $(SHARED) $(PYTEST_ARGS)

test-fast: install ## run the tests that take no more than a few seconds each
	$(PY) -m pytest tests -m "not slow and not thorough" $(PYTEST_ARGS)

hostile: install ## attack with all that is known, in one batch and one by one (make test takes a share)
	HOSTILE_SHARE=1 $(PY) -m pytest tests/hostile tests/sandbox -s $(PYTEST_ARGS)

build: install ## make notebooks and exercises from their sources
	$(PY) -m autograder.build

prove: install ## show that each exercise accepts the solution and catches the known wrong answers
	$(PY) -m autograder.prove

release: install ## make the zip that learners get, in dist/
	$(PY) -m autograder.release

site: install ## make static pages of the lessons, to read without JupyterLab, in dist/site
	$(PY) docs/site/build.py

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
	@echo "Done. If direct dependencies moved, change environment.yml and USUAL_TORCH in"
	@echo "make/common.mk to match; make test compares."

clean: ## remove caches and build leftovers, never anybody's work
	rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist *.egg-info
	find autograder tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## the same, and remove .venv too
	rm -rf $(VENV)
