# What a person does with this project. GNU make 3.81 (macOS) is enough.
.DEFAULT_GOAL := help
.PHONY: help setup up down demo test test-fast mutants lint format bench soak requirements reference jars-lock clean

BIN := .venv/bin
DATA := tests/data/small_pizzeria
SHARED := spark or services or e2e
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make requirements" $(BIN)/uv pip compile --quiet --universal \
	--python-version 3.11 --generate-hashes

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s%s\n", $$1, $$2}' Makefile

demo: setup ## Start here: hourly job and streams side by side, where they differ, and why
	@$(BIN)/lockstep demo

setup: ## Make .venv, its packages and the JVM parts; again: only what has changed
	@sh include/setup/setup.sh

up: setup ## Start the embedded stack: PostgreSQL, Kafka, Connect, Airflow, metrics
	@$(BIN)/lockstep up

down: ## Stop the embedded stack; its data stays in .lockstep
	@if [ -x $(BIN)/lockstep ]; then $(BIN)/lockstep down; else echo "nothing to stop"; fi

test: test-fast ## Run every test, with a stack of their own
	@$(BIN)/python -m pytest -m "slow and not ($(SHARED))" -n auto
	@$(BIN)/python -m pytest -m "$(SHARED)" --durations=25

test-fast: setup ## Run the tests without Spark and services that are not slow (2 to 3 minutes)
	@$(BIN)/python -m pytest -m "not slow and not ($(SHARED))" -n auto

mutants: setup ## Break copies of the core in forty ways: each must fail a test (5 to 10 minutes)
	@$(BIN)/python -m tests.mutants.run --jobs 2

lint: setup ## Check style and formatting of Python and SQL
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/sqlfluff lint --rules layout,capitalisation include/sql examples/pizzeria/pizzeria/demo tools/lockstep_tools/soak/sql tools/lockstep_tools/bench/peer/sql

format: setup ## Format Python, and repair what can be repaired safely
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## Measure the hourly job next to PostgreSQL's own COPY
	@$(BIN)/lockstep bench batch

soak: setup ## Start, or go on with, the long checks; they KILL the stack of LOCKSTEP_HOME
	@$(BIN)/lockstep soak start $(DATA)

requirements: setup ## Compile requirements.in and requirements-dev.in, with hashes
	@$(COMPILE) requirements.in -o requirements.txt
	@sed -n '/^[A-Za-z0-9].*==/s/ *\\*$$//p' requirements.txt \
		>include/lockstep/new_project/files/constraints.txt
	@$(COMPILE) requirements-dev.in -o requirements-dev.txt \
		$$(sed -n '/;/d; s/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.txt)

reference: setup ## Write docs/reference.md from the commands and manifests
	@$(BIN)/python -m lockstep_tools.reference

jars-lock: setup ## Resolve ivy.xml and write jars.sha256 again
	@$(BIN)/python -m lockstep.jars --lock

clean: down ## Remove .venv, .jars and tool caches; the stack's data in .lockstep stays
	rm -rf .venv .jars .pytest_cache .ruff_cache include/*.egg-info examples/*/*.egg-info tools/*.egg-info
