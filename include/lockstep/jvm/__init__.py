"""Java as a program: its command line, its environment, and classes compiled for it."""
