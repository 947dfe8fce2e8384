"""The pipe between workers and the supervisor: frames, credit, windows, deadlines, over ZeroMQ or in memory.

In call order. Worker: `link_asyncio`, `link_trio` (the loops) and `link_memory` (no socket) hold a `caller` (calls in
flight, a state machine; around it `shell`) and hand out a `stream` (over an `exchange`, what is known of one). Wire:
`frames`, carried by `pump` and `sockets` to the `endpoint`. Supervisor: `answerer` (the socket) holds a `desk` (peers
and their calls, kept in `seat`), where each streaming call runs its `course`. `flow` is the window of a stream for both
ends; `link` is what both ends promise to the code above them.

A stream: Open; then Begin, Part... with More the other way, ended by the Answer or Refused of the call. A body in
pieces: Open with `upload`; then More from the supervisor once the handler asks, Part... with More, the last Part empty.
Either end may stop at any moment: the worker with Cancel, the supervisor with its Answer or Refused.
"""
