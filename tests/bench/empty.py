"""The empty handler: the http worker's server library and loop, answering a constant.

It shows what a call costs with no engine behind it.

python -m tests.bench.empty --fd N
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import uvloop

ANSWER = b'{"ok":true,"_meta":{"ms":0.0}}'


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads the body and answers the constant."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    """Serves on an inherited descriptor until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args()
    config = hypercorn.config.Config()
    config.bind = [f"fd://{options.fd}"]
    config.include_server_header = False
    config.keep_alive_max_requests = 10**9
    config.loglevel = "ERROR"
    uvloop.install()
    asyncio.run(hypercorn.asyncio.serve(app, config))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
