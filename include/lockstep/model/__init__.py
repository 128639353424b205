"""What every package agrees on: windows, verdicts, modes. Standard library only."""
