"""One fleet of real processes for all end-to-end tests: the installed command, a free port, a temporary store."""

from __future__ import annotations

import pytest

from tests.support import fleet as fleets


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """A served brain called `brain`; the tests share it and name their records apart."""
    found = fleets.start(tmp_path_factory.mktemp("fleet"))
    yield found
    assert found.stop() == 0
    found.process.stderr.close()
