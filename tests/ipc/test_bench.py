"""The link's benchmark runs, small, so that it cannot rot."""

from tests.bench.ipc_echo import main


def test_echo_benchmark_runs_and_reports_every_row(capsys):
    found = main(["--seconds", "0.05", "--repeats", "1", "--clients", "1", "4"])
    assert list(found) == [1, 4]
    assert all(p50 <= p99 and rate > 0 for p50, p99, rate in found.values())
    assert capsys.readouterr().out.count("calls/s") == 2
