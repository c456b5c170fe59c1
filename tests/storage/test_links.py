"""Storage as links: by hand, and what must hold for any of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import StorageError
from podsim.hardware.parts import Link
from podsim.network.flow import max_min_rates
from podsim.storage.catalog import load_storage, storage_names
from podsim.storage.storage_links import Stream, _server_use, access, link_of, share, storage_links
from podsim.storage.storage_parts import LARGE, SMALL, Software

SYSTEMS = storage_names()
blocks = st.integers(9, 24).map(lambda power: float(1 << power))


def _bandwidth(name: str, clients: int, block: float, *, write: bool = False, **how: int) -> float:
    system, _ = load_storage(name)
    links = storage_links(system, clients, **how)
    use = access(system, links, block, write=write)
    return share(links, [Stream(name="all", use=use, copies=clients)])[0].rate * clients


def test_two_streams_share_by_hand() -> None:
    """A and B on a link of 10; A takes 2 a unit; B also crosses a link of 3. B is held at 3, A has (10 - 3) / 2."""
    links = {"wide": link_of("wide", 10.0), "narrow": link_of("narrow", 3.0)}
    a, b = share(
        links, [Stream(name="a", use={"wide": 2.0}), Stream(name="b", use={"wide": 1.0, "narrow": 1.0})]
    )
    assert (a.rate, b.rate) == pytest.approx((3.5, 3.0))
    assert (a.limit, b.limit) == ("wide", "wide")
    assert b.loads == pytest.approx({"wide": 1.0, "narrow": 1.0})


def test_bytes_that_rebuild_others_come_in_and_go_on() -> None:
    """1.5 B read for a byte: all leave a server, the half that another server asked for arrives there, too."""
    system, clients = load_storage("weka-ra")
    use = access(system, storage_links(system, clients), LARGE, read_factor=1.5)
    assert (use["server ports out"], use["server ports in"]) == pytest.approx((1.5, 0.5))


@settings(max_examples=40, deadline=None)
@given(
    capacities=st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=6),
    uses=st.lists(st.floats(1e-6, 1e3), min_size=6, max_size=6),
    copies=st.integers(1, 1000),
)
def test_one_stream_alone_gets_what_the_law_gives(
    capacities: list[float], uses: list[float], copies: int
) -> None:
    links = {str(k): link_of(str(k), value) for k, value in enumerate(capacities)}
    use = dict(zip(links, uses, strict=False))
    found = share(links, [Stream(name="a", use=use, copies=copies)])[0]
    law = max_min_rates(
        ([0, len(use)], list(range(len(use)))), capacities, copies=[copies], use=list(use.values())
    )
    assert found.rate == pytest.approx(float(law[0]))
    assert found.limit


def test_a_stream_through_nothing_is_refused() -> None:
    with pytest.raises(StorageError, match="nothing goes through broken"):
        share({"broken": link_of("broken", 0.0)}, [Stream(name="a", use={"broken": 1.0})])


def test_links_are_links() -> None:
    system, clients = load_storage("weka-ra:4")
    links = storage_links(system, clients)
    assert all(isinstance(link, Link) and link.name == name for name, link in links.items())
    assert links["client ports in"].bandwidth == 4 * 2 * 12.5e9
    assert links["drives read"].bandwidth == pytest.approx(8 * 7 * 3.5e9)


def test_software_meets_both_of_its_figures() -> None:
    one = Software.through(16e9, 885e3)
    assert LARGE / one.seconds(LARGE) == pytest.approx(16e9)
    assert 1.0 / one.seconds(SMALL) == pytest.approx(885e3)
    assert Software.through(2e9, None).seconds(SMALL) == pytest.approx(SMALL / 2e9)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("write", [False, True])
def test_more_clients_never_move_less_and_no_link_is_overfull(name: str, write: bool) -> None:
    system, _ = load_storage(name)
    before = 0.0
    for clients in (1, 2, 3, 8, 64):
        links = storage_links(system, clients)
        flow = share(
            links, [Stream(name="x", use=access(system, links, LARGE, write=write), copies=clients)]
        )[0]
        assert flow.limit
        assert max(flow.loads.values()) <= 1.0 + 1e-9
        assert flow.rate * clients >= before * (1 - 1e-12)
        before = flow.rate * clients


@settings(max_examples=25, deadline=None)
@given(block=blocks, clients=st.integers(1, 50))
def test_software_only_lowers_what_the_parts_allow(block: float, clients: int) -> None:
    assert _bandwidth("weka-ra", clients, block) <= _bandwidth("weka-ra", clients, block, parts_only=True) * (
        1 + 1e-12
    )


@settings(max_examples=25, deadline=None)
@given(block=blocks, clients=st.integers(1, 12), alive=st.integers(1, 8))
def test_fewer_servers_move_no_more(block: float, clients: int, alive: int) -> None:
    assert _bandwidth("weka-ra", clients, block, alive=alive) <= _bandwidth("weka-ra", clients, block) * (
        1 + 1e-12
    )


@settings(max_examples=25, deadline=None)
@given(clients=st.integers(1, 12))
def test_larger_blocks_carry_more_bytes_and_fewer_operations(clients: int) -> None:
    rates = [_bandwidth("weka-ra", clients, block) for block in (4096.0, 65536.0, 1048576.0)]
    assert rates == sorted(rates)
    assert [rate / block for rate, block in zip(rates, (4096.0, 65536.0, 1048576.0), strict=True)] == sorted(
        (rate / block for rate, block in zip(rates, (4096.0, 65536.0, 1048576.0), strict=True)), reverse=True
    )


@pytest.mark.parametrize(
    ("write", "sequential", "block", "uses"),
    [
        # 1.5 B arrive or leave for one asked; 1.25 B are kept; random accesses of up to 128 KiB
        (
            False,
            True,
            1 << 20,
            {"server ports out": 1.5, "server ports in": 0.5, "drives read": 1.5, "drive reads": 0},
        ),
        (
            False,
            False,
            1 << 20,
            {"drives read": 1.5, "drive reads": 1.5 / (1 << 17), "requests": 1 / (1 << 20)},
        ),
        (False, False, 1024, {"drives read": 1.5 * 4, "drive reads": 1.5 / 1024}),  # 4 KiB at least
        (True, True, 1 << 20, {"server ports in": 1.25, "server ports out": 0.25, "drives write": 1.25}),
        (True, False, 4096, {"drive writes": 1.25 / 4096, "requests": 1 / 4096}),
    ],
)
def test_what_a_byte_takes_of_servers(
    write: bool, sequential: bool, block: float, uses: dict[str, float]
) -> None:
    found = _server_use(float(block), write, sequential, 1.5, 1.25)
    assert {name: found[name] for name in uses} == pytest.approx(uses)
