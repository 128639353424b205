"""The published table that consumers read: keeps it up to date, and switches what feeds it."""
