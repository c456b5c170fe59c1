"""The fullest time of a port, by hand."""

from podsim.answers.telemetry import PortRow, Telemetry
from podsim.monitoring.port_windows import contention_of, windows_of

PORT = PortRow(
    port="leaf0>spine0", kind="leaf", values=(0.0, 1.0, 8.0, 10.0, 6.0, 0.0), capacity=10.0, queue=(0.0, 1.0)
)
OWNERS = (
    PortRow(port="leaf0>spine0", kind="leaf", collective="dp", values=(0.0, 1.0, 5.0, 9.8, 3.0)),
    PortRow(port="leaf0>spine0", kind="leaf", collective="pp", values=(0.0, 0.0, 3.0, 0.2, 3.0)),
)
RUN = Telemetry(source="simulated", job="", seconds=12.0, bins=6, rows=(PORT, *OWNERS))


def test_a_window_holds_the_bins_of_more_than_half_of_the_fullest() -> None:
    """Bins of 2 s: 8, 10 and 6 B of 20 B each, from 4 to 10 s."""
    (window,) = windows_of(RUN, "leaf0*")
    assert (window.start, window.end) == (4.0, 10.0)
    assert window.utilisation == 24 / 60
    assert [text.split()[0] for text in window.owners] == ["gradients", "sends"]


def test_traffic_meets_where_two_kinds_have_a_part_of_the_port() -> None:
    """In the fullest bin one kind is nearly alone; they meet in the one before it and the one behind."""
    (window,) = contention_of(RUN)
    assert (window.start, window.end) == (4.0, 6.0)
