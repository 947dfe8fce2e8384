"""The http worker: HTTP/1.1 and HTTP/2 on one listener, with MCP at /mcp."""
