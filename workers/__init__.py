"""One process a transport: sockets and translation, no key, no store, no numeric library."""
