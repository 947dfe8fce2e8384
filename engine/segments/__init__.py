"""Immutable pieces of the derived index: columns of fields, postings of words, rows of vectors, and their file
format.
"""
