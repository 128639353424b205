"""The groups `soak` and `bench` of the `lockstep` command."""
