"""Event queue of the kernels: one queue per distinct delay, and a heap over their heads.

Sends start in rising order, so the events of one delay come in order by themselves, and only
the heads need a heap. Most networks have few distinct delays, which makes an event O(1).

A queue is a tuple ``(head, tail, following, when, heap, size)``: ``head`` and ``tail`` per
delay, −1 if empty; ``following`` and ``when`` per event; ``heap`` of delays, its length in
``size[0]``.
"""

import numpy as np

from controller.collectives.kernels.compiled import helper
from controller.collectives.network import Ints

Queue = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


@helper
def make_queue(delays: int, events: int) -> Queue:
    """An empty queue for so many distinct delays and events."""
    return (
        np.full(delays, -1, dtype=np.int64),
        np.full(delays, -1, dtype=np.int64),
        np.full(events, -1, dtype=np.int64),
        np.zeros(events, dtype=np.int64),
        np.zeros(delays, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@helper
def push_event(queue: Queue, delay: int, event: int, time: int) -> None:
    """Append an event to the queue of its delay."""
    head, tail, following, when, heap, size = queue
    when[event] = time
    following[event] = -1
    if head[delay] >= 0:
        following[tail[delay]] = event
        tail[delay] = event
        return
    head[delay] = event
    tail[delay] = event
    place = size[0]
    size[0] += 1
    while place > 0:
        parent = (place - 1) >> 1
        if when[head[heap[parent]]] <= time:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = delay


@helper
def next_time(queue: Queue) -> int:
    """Time of the earliest event, −1 if there is none."""
    head, _, _, when, heap, size = queue
    return int(when[head[heap[0]]]) if size[0] else -1


@helper
def pop_event(queue: Queue) -> int:
    """Remove the earliest event and return it."""
    head, tail, following, when, heap, size = queue
    delay = heap[0]
    event = head[delay]
    head[delay] = following[event]
    if head[delay] < 0:
        tail[delay] = -1
        size[0] -= 1
        if size[0] == 0:
            return int(event)
        delay = heap[size[0]]
    time = when[head[delay]]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size[0]:
            break
        if child + 1 < size[0] and when[head[heap[child + 1]]] < when[head[heap[child]]]:
            child += 1
        if when[head[heap[child]]] >= time:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = delay
    return int(event)
