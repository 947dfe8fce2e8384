"""The one process that holds leases, the residency pool and the engine, and starts the workers."""
