"""The pipe between workers and the supervisor: frames, credit, deadlines, over ZeroMQ or in memory."""
