"""What asks a command to end: SIGTERM and SIGHUP do what Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def asked_to_end() -> Iterator[None]:
    """Within this context a signal to end raises ``KeyboardInterrupt``, so that work is kept.

    A signal that is ignored, as under ``nohup``, stays so; only the first thread may say.
    """

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {s: h for s in ENDING if (h := signal.getsignal(s)) is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
