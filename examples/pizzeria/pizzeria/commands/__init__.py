"""The example's groups of the `lockstep` command."""
