"""One brain: durable store, history, derived indexes, the doors that read and write it."""
