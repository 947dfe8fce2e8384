"""The Model Context Protocol: one session, spoken over standard input and output or posted to /mcp."""
