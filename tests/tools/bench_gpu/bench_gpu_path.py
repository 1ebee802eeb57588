"""Imported first: where the modules of `terrace bench gpu` lie."""
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "tools/bench"
sys.path[:0] = [str(BENCH / "gpu"), str(BENCH)]
