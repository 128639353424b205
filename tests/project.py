"""The folder of the project under test."""

from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[1]
