"""The long checks: crashes, seeds, hours; resumable, with a report."""
