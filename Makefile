# `make demo` and `make test` are all a fresh machine needs; both run `setup` first.
BIN := .venv/bin

.PHONY: setup demo check test test-all bench lock clean

setup: .venv/.complete

.venv/.complete: requirements.lock pyproject.toml scripts/setup.sh
	scripts/setup.sh

demo: setup
	$(BIN)/nearcast demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_doc_links.py

# Whole fleets of real servers come last and two at a time: beside more of them each is late, and leases run out.
test: setup check
	$(BIN)/pytest -n 3 --dist worksteal --tb=short -m "not slow" --ignore tests/live
	$(BIN)/pytest -n 2 --dist worksteal --tb=short -m "not slow" tests/live

test-all: setup check
	$(BIN)/pytest -n 2

bench: setup
	$(BIN)/nearcast bench ring

# Writes the newest versions that pyproject.toml allows, for every platform and Python that it allows.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra lab --extra plan --extra spark --extra train --extra web --group dev --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist out
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
