"""The releases that bring what is declared and not built yet."""

STEP_3 = "0.3.0"
STEP_8 = "0.8.0"


def later(release: str, *options: str) -> dict[str, str]:
    """`options` (wire names, or `name=value`) that arrive with `release`."""
    return dict.fromkeys(options, release)
