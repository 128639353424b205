"""Maintenance: what grows while the platform runs is kept bounded, or reported when it is not."""
