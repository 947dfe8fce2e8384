"""Readers of outside formats. Pure: text in, rows and named failures out; nothing here sees a store."""
