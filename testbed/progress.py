"""Says on standard error which step runs and for how long; plain lines when not a terminal."""

import sys
import time
from types import TracebackType
from typing import TextIO

_REFRESH_S = 0.5
_PLAIN_INTERVAL_S = 30.0


class Step:
    """One long step as a context manager: announced, ticked, ended with its duration.

    On a terminal one line is redrawn; elsewhere a line is printed at the start, every
    30 s, and at the end. A step that raises leaves the last word to the error message.

    Parameters
    ----------
    title
        What is done, e.g. ``building the kernel``.
    stream
        Where to write; standard error by default.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._begun = self._shown = 0.0

    def __enter__(self) -> "Step":
        self._begun = self._shown = time.monotonic()
        if self._terminal:
            self._redraw("")
        else:
            self._line(f"{self._title} …")
        return self

    def tick(self, detail: str = "") -> None:
        """Show that the step is alive; cheap, so call it as often as you like.

        Parameters
        ----------
        detail
            How far it is, e.g. ``412 files``.
        """
        now = time.monotonic()
        if now - self._shown < (_REFRESH_S if self._terminal else _PLAIN_INTERVAL_S):
            return
        self._shown = now
        if self._terminal:
            self._redraw(detail)
        else:
            self._line(f"{self._title} … {self._elapsed(detail)}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
        if kind is None:
            self._line(f"{self._title}: done, {time.monotonic() - self._begun:.1f} s")

    def _elapsed(self, detail: str) -> str:
        seconds = f"{time.monotonic() - self._begun:.0f} s"
        return f"{detail}, {seconds}" if detail else seconds

    def _redraw(self, detail: str) -> None:
        self._stream.write(f"\r\x1b[K{self._title} … {self._elapsed(detail)}")
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()
