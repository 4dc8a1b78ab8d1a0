"""An island's state, fed with block sums as they come in, against the replay."""

from pathlib import Path

import numpy as np
import pytest
from agent_plans import rotating_plan
from hypothesis import given
from hypothesis import strategies as st

from agents.averaging import Replay, start_tables
from agents.context import Expectation
from agents.state import State, read_history, read_states
from agents.weights import Weights
from agents.wire import StreamLayout
from testbed.errors import InputError

ROUNDS = (
    (("nyc", "lon", "tyo"),),
    (("nyc", "sin"), ("lon", "tyo")),
    (("lon", "tyo", "sin"),),  # nyc is idle
    (("nyc", "lon", "tyo", "sin"),),
)
LAYOUT = StreamLayout(40, 8, 3)
CODES = ("nyc", "lon", "tyo", "sin")


class Bench:
    """Four islands that hear from each other without a network in between."""

    def __init__(self, folder: Path, layout: StreamLayout = LAYOUT, seed: int = 1) -> None:
        self.plan = rotating_plan(*ROUNDS)
        self.layout = layout
        self.weights = Weights(seed, layout)
        self.starts = start_tables(seed, len(CODES), self.weights.shape)
        self.paths = [folder / f"{code}.state" for code in CODES]
        self.files = [path.open("wb") for path in self.paths]
        self.states = [
            State(self.starts[city], 1 << city, self.expectations(city), self.weights, file)
            for city, file in enumerate(self.files)
        ]

    def clique(self, k: int, city: int) -> list[int]:
        mine = [c for c in ROUNDS[k] if CODES[city] in c]
        return [CODES.index(code) for code in mine[0]] if mine else []

    def expectations(self, city: int) -> list[Expectation]:
        made = []
        for k in range(len(ROUNDS)):
            others = tuple(i for i in self.clique(k, city) if i != city)
            made.append(Expectation(k, 0, 0, others, sum(1 << i for i in others)))
        return made

    def total(self, k: int, city: int, block: int, count: int = 1) -> np.ndarray:
        """What the datagrams of a clique add up to, each coded by its own sender."""
        width = self.layout.elements_of(block + count - 1)
        total = np.zeros((count, width), np.int32)
        for sender in self.clique(k, city):
            part = np.zeros_like(total)
            table = self.states[sender].table(k)
            self.weights.fill(k, 1 << sender, table, block, part)
            total += part
        return total

    def deliver(self, k: int, city: int, blocks: list[int]) -> None:
        if self.clique(k, city):
            for block in blocks:
                stale = any(
                    self.states[i].behind(k)[self.weights.row(k, block)]
                    for i in self.clique(k, city)
                )
                self.states[city].take(k, block, self.total(k, city, block), stale=stale)

    def restart(self, city: int, history: np.ndarray) -> None:
        """Another process takes an island over."""
        self.files[city].close()
        self.files[city] = self.paths[city].open("wb")
        behind = np.zeros(len(history[0]), np.bool_)
        self.states[city] = State(
            self.starts[city],
            1 << city,
            self.expectations(city),
            self.weights,
            self.files[city],
            (history, behind),
        )

    def round(self, k: int, blocks: dict[int, list[int]] | None = None) -> None:
        every = list(range(self.layout.blocks))
        for city in range(len(CODES)):
            self.deliver(k, city, (blocks or {}).get(city, every))

    def results(self) -> np.ndarray:
        """Shape (islands, rounds + 1, elements)."""
        for state, file in zip(self.states, self.files, strict=True):
            state.finish()
            file.close()
        shape = self.weights.shape
        return np.array([read_states(path, shape, len(ROUNDS)) for path in self.paths])

    def replayed(self) -> np.ndarray:
        replay = Replay(self.plan, 0, self.starts)
        made = [np.array(replay.tables)]
        for _ in ROUNDS:
            replay.step()
            made.append(np.array(replay.tables))
        return np.array(made).swapaxes(0, 1).reshape(len(CODES), len(ROUNDS) + 1, -1)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 5), st.randoms(use_true_random=False))
def test_states_from_the_sums_are_those_of_the_replay(
    tmp_path_factory, blocks: int, last: int, seed: int, random
) -> None:
    bench = Bench(tmp_path_factory.mktemp("states"), StreamLayout(blocks, 8, last), seed)
    for k in range(len(ROUNDS)):
        order = list(range(blocks))
        random.shuffle(order)
        bench.round(k, dict.fromkeys(range(4), order))
    np.testing.assert_array_equal(bench.results(), bench.replayed())
    assert [state.stale_rows for state in bench.states] == [[0] * 4] * 4


def test_a_burst_gives_what_its_blocks_give(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for city in range(4):
        if bench.clique(0, city):
            bench.states[city].take(0, 0, bench.total(0, city, 0, 7))
            bench.states[city].take(0, 7, bench.total(0, city, 7, 32))
    for k in (1, 2, 3):
        bench.round(k)
    np.testing.assert_array_equal(bench.results(), bench.replayed())


def test_one_block_of_each_row_is_enough(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.round(0, {1: list(range(20, 36))})
    for k in (1, 2, 3):
        bench.round(k)
    np.testing.assert_array_equal(bench.results(), bench.replayed())


def test_a_row_whose_sum_does_not_come_is_sent_as_it_was(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.round(0, {1: [b for b in range(40) if bench.weights.row(0, b) not in (3, 4)]})
    for k in (1, 2, 3):
        bench.round(k)
    lon, true = bench.results()[1], bench.replayed()[1]
    assert bench.states[1].stale_rows == [2, 0, 0, 0]
    rows, true_rows = lon.reshape(5, 16, 8), true.reshape(5, 16, 8)
    np.testing.assert_array_equal(rows[1, 3:5], rows[0, 3:5])
    kept = [row for row in range(16) if row not in (3, 4)]
    np.testing.assert_array_equal(rows[1, kept], true_rows[1, kept])
    # the others averaged what lon had really sent
    assert (rows[2, 3:5] != true_rows[2, 3:5]).any()


def test_rows_that_are_behind_are_known_wherever_they_go(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.round(0, {1: [b for b in range(40) if bench.weights.row(0, b) not in (3, 4)]})
    for k in range(1, 4):
        bench.round(k)
        replay = bench.replayed()[:, k].reshape(4, 16, 8)
        for city, state in enumerate(bench.states):
            differs = (state.table(k) != replay[city]).any(axis=1)
            np.testing.assert_array_equal(state.behind(k), differs)
    assert any(state.behind(3).any() for state in bench.states[2:])


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_state_goes_on_where_another_process_ended(tmp_path: Path, rounds: int) -> None:
    bench = Bench(tmp_path)
    for k in range(rounds):
        bench.round(k)
    for state in bench.states:
        state.table(rounds)
    history = read_history(bench.paths[1], bench.weights.shape)
    assert history is not None
    assert len(history) == rounds + 1
    bench.restart(1, history)
    assert bench.states[1].latest == rounds
    assert bench.states[1].holds(max(0, rounds - 1))
    for k in range(rounds, len(ROUNDS)):
        bench.round(k)
    np.testing.assert_array_equal(bench.results(), bench.replayed())


def test_a_last_vector_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    assert read_history(tmp_path / "none.state", (2, 3)) is None
    (tmp_path / "a.state").write_bytes(bytes(23))
    assert read_history(tmp_path / "a.state", (2, 3)) is None
    np.arange(15, dtype="<i4").tofile(tmp_path / "a.state")
    history = read_history(tmp_path / "a.state", (2, 3))
    assert history is not None
    assert history.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_a_late_sum_does_not_enter(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.round(0, {0: []})
    late = bench.total(0, 0, 0)
    sent = bench.states[0].table(1).copy()
    bench.states[0].take(0, 0, late)
    np.testing.assert_array_equal(bench.states[0].table(1), sent)
    np.testing.assert_array_equal(sent, bench.starts[0])
    bench.results()
    assert bench.states[0].stale_rows == [16, 16, 0, 16]


def test_what_was_sent_last_round_is_still_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.round(0)
    before = bench.states[0].table(0).copy()
    after = bench.states[0].table(1).copy()
    assert (before != after).any()
    np.testing.assert_array_equal(bench.states[0].table(0), before)
    np.testing.assert_array_equal(bench.states[0].table(1), after)


def test_a_file_that_is_missing_or_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_states(tmp_path / "none.state", (16, 8), 4)
    (tmp_path / "half.state").write_bytes(bytes(16 * 8 * 4))
    with pytest.raises(InputError, match="512 bytes instead of 2560"):
        read_states(tmp_path / "half.state", (16, 8), 4)


def test_what_the_latest_two_rounds_sent_is_held(tmp_path: Path) -> None:
    state = Bench(tmp_path).states[0]
    assert [state.holds(k) for k in (0, 1)] == [True, False]
    state.table(2)
    assert state.latest == 2
    assert [state.holds(k) for k in (0, 1, 2, 3)] == [False, True, True, False]
