"""What checks and measures Lockstep from outside: neither in its wheel nor in its image."""
