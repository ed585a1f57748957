PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo docs test lint

demo: .venv/.installed
	$(BIN)/python examples/hand_crafted.py

docs: .venv/.installed
	$(BIN)/python docs/results.py

test: .venv/.installed
	$(BIN)/python -m pytest

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --editable ".[dev]"
	touch $@
