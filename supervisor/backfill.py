"""Vectors for rows that were committed without one: a task that walks the open writer brains at low priority."""
