"""What an aggregator tells of itself at its end."""

from agents.aggregator.report import output_by_round
from agents.records import Kind, Recorder
from agents.wire import StreamLayout


def test_output_is_counted_from_the_records() -> None:
    recorder = Recorder()
    layout = StreamLayout(10, 8, 3)
    for round_index, block, count in ((0, 0, 4), (1, 8, 2), (0, 9, 1), (1, 9, 1)):
        recorder.add(0, round_index, Kind.AGGREGATE_OUT, 0, block, count, 0b11)
    recorder.add(0, 0, Kind.HELD, 1, 0, 7, 3)
    recorder.add(0, 0, Kind.RESEND, 0, 0, 7, 0)
    full, last = 98 + 4 * 8, 98 + 4 * 3
    assert output_by_round(recorder.array(), layout) == {
        0: {"datagrams_out": 5, "bytes_out": 4 * full + last},
        1: {"datagrams_out": 3, "bytes_out": full + 2 * last},
    }
    assert output_by_round(Recorder().array(), layout) == {}
