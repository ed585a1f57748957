"""The command ``hyperspn``: Ctrl-C ends it in one line even while torch is being imported, which takes seconds."""

from __future__ import annotations

import gc
import os
import signal
import sys

from time import perf_counter
from typing import Any

started: float | None = None  # when the process began to import


def start() -> None:
    """Runs the command line as a process.

    What is imported stays, so that to look for garbage in it is wasted time.
    """
    global started
    started = perf_counter()
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, _end)
    gc.disable()
    from hyperspn.cli import keep_pandas_out, main

    keep_pandas_out()
    gc.freeze()
    gc.enable()
    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _end(*_: Any) -> None:
    print("hyperspn: interrupted", file=sys.stderr, flush=True)
    os._exit(130)
