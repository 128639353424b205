"""Benchmarks: each measures ours and its peer by turns, in one run, and reports medians."""
