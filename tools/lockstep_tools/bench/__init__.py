"""Benchmarks: ours and, where there is one, its peer by turns in one run; medians."""
