"""This machine: files, processes, ports, and where the embedded services keep their data."""
