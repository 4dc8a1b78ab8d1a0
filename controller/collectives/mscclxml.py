"""The XML of MSCCL algorithms, written and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from controller.collectives.msccl import (
    NAMES,
    RECEIVES,
    SENDS,
    Algorithm,
    Block,
    BlockStep,
    StepType,
)
from testbed.errors import InputError, suggestion

_TYPES: tuple[str, ...] = get_args(StepType)
_BUFFERS = ("i", "o", "s")


def write_msccl(algorithm: Algorithm) -> str:
    """XML text of an algorithm."""
    lines = [
        _open(
            "algo",
            name=algorithm.name,
            proto="Simple",
            nchannels=1 + max((b.channel for g in algorithm.gpus for b in g), default=0),
            nchunksperloop=algorithm.chunks,
            ngpus=len(algorithm.gpus),
            coll=algorithm.collective,
            inplace=int(algorithm.collective != "alltoall"),
        )
    ]
    for rank, blocks in enumerate(algorithm.gpus):
        counts = {buffer: _length(blocks, buffer) for buffer in _BUFFERS}
        lines.append(
            "  "
            + _open(
                "gpu",
                id=rank,
                i_chunks=counts["i"],
                o_chunks=counts["o"],
                s_chunks=counts["s"],
            )
        )
        for number, block in enumerate(blocks):
            lines.append(
                "    "
                + _open("tb", id=number, send=block.send, recv=block.receive, chan=block.channel)
            )
            lines += [f"      {_step(i, step)}" for i, step in enumerate(block.steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def read_msccl(text: str, where: str) -> Algorithm:
    """Read an algorithm.

    Parameters
    ----------
    text
        The XML.
    where
        What messages call the file.

    Raises
    ------
    InputError
        It is not XML, or not an algorithm: with the line and the reason.
    """
    reader = _Reader(where)
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: reader.start(
        tag, attributes, parser.CurrentLineNumber
    )
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"{where}:{error.lineno}: not XML: {reason}") from error
    return reader.algorithm()


@dataclass
class _Reader:
    """Collects the parts while expat goes through the file."""

    where: str
    name: str = ""
    collective: str = ""
    chunks: int = 0
    expected: int = -1
    gpus: list[list[tuple[int, int, int, list[BlockStep]]]] = field(default_factory=list)

    def start(self, tag: str, attributes: Mapping[str, str], line: int) -> None:
        here = f"{self.where}:{line}"
        known = ("algo", "gpu", "tb", "step")
        if tag not in known:
            raise InputError(f"{here}: unknown element <{tag}>; {suggestion(tag, known)}")
        if (tag == "algo") != (self.expected < 0):
            raise InputError(f"{here}: expected one <algo> around all, found <{tag}>")
        if tag == "algo":
            self.name = _text(attributes, "name", here)
            self.collective = _text(attributes, "coll", here)
            if self.collective not in NAMES.values():
                hint = suggestion(self.collective, NAMES.values())
                raise InputError(f'{here}: unknown coll "{self.collective}"; {hint}')
            self.chunks = _number(attributes, "nchunksperloop", here, low=1)
            self.expected = _number(attributes, "ngpus", here, low=2)
        elif tag == "gpu":
            _in_turn(_number(attributes, "id", here), len(self.gpus), "gpu", here)
            self.gpus.append([])
        elif tag == "tb":
            self._block(attributes, here)
        else:
            self._step(attributes, here)

    def _block(self, attributes: Mapping[str, str], here: str) -> None:
        if not self.gpus:
            raise InputError(f"{here}: <tb> outside of a <gpu>")
        _in_turn(_number(attributes, "id", here), len(self.gpus[-1]), "tb", here)
        send, receive = (_number(attributes, key, here, low=-1) for key in ("send", "recv"))
        for peer in (send, receive):
            if peer >= self.expected:
                raise InputError(f"{here}: there is no gpu {peer}")
        self.gpus[-1].append((send, receive, _number(attributes, "chan", here), []))

    def _step(self, attributes: Mapping[str, str], here: str) -> None:
        if not self.gpus or not self.gpus[-1]:
            raise InputError(f"{here}: <step> outside of a <tb>")
        send, receive, _, steps = self.gpus[-1][-1]
        _in_turn(_number(attributes, "s", here), len(steps), "step", here)
        kind = next((t for t in get_args(StepType) if t == attributes.get("type")), None)
        if kind is None:
            hint = suggestion(attributes.get("type", ""), _TYPES)
            raise InputError(f'{here}: unknown type "{attributes.get("type", "")}"; {hint}')
        if (kind in SENDS and send < 0) or (kind in RECEIVES and receive < 0):
            raise InputError(f'{here}: "{kind}" in a block without that peer')
        ends = []
        for side in ("src", "dst"):
            buffer = _text(attributes, f"{side}buf", here)
            if buffer not in _BUFFERS:
                raise InputError(f'{here}: unknown buffer "{buffer}"; valid: i, o, s')
            ends.append((buffer, _number(attributes, f"{side}off", here, low=-1)))
        if kind != "nop" and _number(attributes, "cnt", here, low=1) != 1:
            raise InputError(f"{here}: cnt: only steps of one chunk are read")
        depends = (
            _number(attributes, "depid", here, low=-1),
            _number(attributes, "deps", here, low=-1),
        )
        awaited = _number(attributes, "hasdep", here) == 1
        steps.append(BlockStep(kind, ends[0], ends[1], depends, awaited))

    def algorithm(self) -> Algorithm:
        if len(self.gpus) != self.expected:
            raise InputError(f"{self.where}: ngpus says {self.expected}, found {len(self.gpus)}")
        gpus = tuple(tuple(Block(s, r, c, tuple(x)) for s, r, c, x in g) for g in self.gpus)
        return Algorithm(self.name, self.collective, self.chunks, gpus)


def _open(tag: str, **attributes: object) -> str:
    text = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items())
    return f"<{tag}{text}>"


def _step(number: int, step: BlockStep) -> str:
    opened = _open(
        "step",
        s=number,
        type=step.type,
        srcbuf=step.source[0],
        srcoff=step.source[1],
        dstbuf=step.target[0],
        dstoff=step.target[1],
        cnt=0 if step.type == "nop" else 1,
        depid=step.depends[0],
        deps=step.depends[1],
        hasdep=int(step.awaited),
    )
    return f"{opened[:-1]}/>"


def _length(blocks: tuple[Block, ...], buffer: str) -> int:
    """Chunks of a buffer that the steps of a GPU touch on its own side."""
    last = -1
    for block in blocks:
        for step in block.steps:
            own = step.source if step.type == "s" else step.target
            if own[0] == buffer:
                last = max(last, own[1])
    return last + 1


def _text(attributes: Mapping[str, str], key: str, here: str) -> str:
    if not attributes.get(key):
        raise InputError(f"{here}: {key} is missing")
    return attributes[key]


def _number(attributes: Mapping[str, str], key: str, here: str, *, low: int = 0) -> int:
    text = _text(attributes, key, here)
    try:
        value = int(text)
    except ValueError as error:
        raise InputError(f'{here}: {key}: "{text[:40]}" is not a whole number') from error
    if value < low:
        raise InputError(f"{here}: {key}: {value} is below {low}")
    return value


def _in_turn(found: int, expected: int, what: str, here: str) -> None:
    if found != expected:
        raise InputError(f"{here}: expected {what} {expected}, found {found}")
