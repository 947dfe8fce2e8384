"""A served brain that is too damaged to be opened: refused by name, and brought back by its operator over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.support.fleet import Fleet, start

PAGE = 8192


def scramble(path: Path) -> None:
    """The database's first pages, with the head of its schema, are noise."""
    (path / "store.db").write_bytes(b"\x5a" * PAGE * 4)


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").write_bytes(b"{")


def cut(path: Path) -> None:
    data = (path / "store.db").read_bytes()
    (path / "store.db").write_bytes(data[: len(data) // 2])


DAMAGE = {"scrambled": scramble, "cut": cut, "nameless": lose_manifest}


def serving(folder: Path) -> Fleet:
    return start(folder, tuple(DAMAGE), BRAINY_EMBED_MODEL_DIR=str(folder))


def stop(fleet: Fleet) -> None:
    assert fleet.stop() == 0
    assert fleet.process.stderr is not None
    fleet.process.stderr.close()


class Asking:
    def __init__(self, fleet: Fleet, brain: str) -> None:
        self._base = f"{fleet.url}/v1/brains/{brain}"
        self._secrets = {"owner": fleet.owner, "service": fleet.service}

    def __call__(self, who: str, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {self._secrets[who]}"} | ({"idempotency-key": key} if key else {})
        with httpx.Client(base_url=self._base, timeout=60, trust_env=False) as http:
            return http.request(method, path, json=body, headers=headers)


def test_a_brain_that_cannot_be_opened_is_restored_over_http(tmp_path: Path) -> None:
    fleet, heads = serving(tmp_path), {}
    item = {"type": "concept", "data": "text"}
    for name in DAMAGE:
        ask = Asking(fleet, name)
        assert ask("owner", "POST", "/entities", {**item, "id": "kept"}).status_code == 200
        assert ask("service", "POST", "/snapshot", {"name": "one"}).status_code == 200
        heads[name] = ask("owner", "POST", "/entities", {**item, "id": "lost"}).json()["generation"]
    stop(fleet)
    for name, damage in DAMAGE.items():
        damage(tmp_path / name)
    fleet = serving(tmp_path)
    for name, head in heads.items():
        ask = Asking(fleet, name)
        refused = ask("owner", "GET", "/entities/kept")
        assert refused.json()["error"]["name"] == "StoreNotAttachableError", (name, refused.text)
        body = {"name": "one", "confirm": True}
        done = ask("service", "POST", "/restore", body, key="bring it back")
        assert done.status_code == 200, (name, done.text)
        assert done.json()["safetySnapshot"] is None
        restored = done.json()["generation"]
        assert restored > head
        assert ask("service", "POST", "/restore", body, key="bring it back").json()["generation"] == restored
        assert ask("owner", "GET", "/entities/kept").json()["id"] == "kept"
        assert ask("owner", "GET", "/entities/lost").status_code == 404
        assert ask("owner", "POST", "/entities", {**item, "id": "after"}).json()["generation"] == restored + 1
        assert ask("service", "POST", "/scrub", {}).json()["damaged"] == []
        kept = [path for path in (tmp_path / f"{name}.snapshots").iterdir() if path.name.startswith("damaged-")]
        assert len(kept) == 1  # the damaged folder, for whoever wants to look
    stop(fleet)
