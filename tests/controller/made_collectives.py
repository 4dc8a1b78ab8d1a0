"""Networks for the tests of collectives."""

from hypothesis import strategies as st

from controller.collectives.network import LinkSpec, Network, Node, make_network


def line(count: int, *, latency_us: float = 1.0, rate: float = 100.0) -> Network:
    """Workers in a row, joined both ways."""
    ends = [pair for i in range(count - 1) for pair in ((i, i + 1), (i + 1, i))]
    return make_network(
        "line",
        [Node(f"n{i}") for i in range(count)],
        [LinkSpec(a, b, latency_us, rate) for a, b in ends],
    )


@st.composite
def networks(draw: st.DrawFn, most: int = 7) -> Network:
    """Strongly connected: a cycle with further links, all of different latency and rate."""
    count = draw(st.integers(2, most))
    order = draw(st.permutations(range(count)))
    ends = {(order[i - 1], order[i]) for i in range(count)}
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    ends |= set(draw(st.lists(st.sampled_from(pairs), max_size=2 * count)))
    links = [
        LinkSpec(a, b, draw(st.integers(0, 2000)) / 100, float(draw(st.integers(1, 500))))
        for a, b in sorted(ends)
    ]
    return make_network("random", [Node(f"n{i}") for i in range(count)], links)
