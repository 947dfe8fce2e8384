"""Snapshots of a store: taking them, checking them, and putting one in the store's place."""
