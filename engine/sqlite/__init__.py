"""The embedded backend: one SQLite file per brain, through apsw. No SQL lives outside this folder and `commit.py`."""
