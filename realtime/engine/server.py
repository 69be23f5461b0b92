"""The engine process: build, serve one link, end at once when anything is wrong.

Knows the process (threads, signals, exit); what a step does is `realtime.engine.core`'s.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import structlog

from realtime.clock import Clock, MonotonicClock
from realtime.config import ServiceConfig
from realtime.link import LinkClosedError, ThreadLink
from realtime.telemetry import logs

if TYPE_CHECKING:
    from realtime.engine.build import Engine

EXIT_FAILED = 70  # EX_SOFTWARE: a step or the codec failed, or a step hung
_WATCH_INTERVAL_S = 0.2
_SWITCH_INTERVAL_S = 0.0005  # loop and codec thread swap the interpreter in less than a step

_log = structlog.get_logger()


def watch_deadline(
    clock: Clock,
    deadline_s: float,
    started: Callable[[], list[float | None]],
    on_hang: Callable[[float], None],
) -> None:
    """Start a thread that calls `on_hang(busy_s)` once something has been computing for longer than
    `deadline_s`.
    """

    def watch() -> None:
        pause = threading.Event()
        while not pause.wait(_WATCH_INTERVAL_S):
            now = clock.now()
            busy_s = max((now - at for at in started() if at is not None), default=0.0)
            if busy_s > deadline_s:
                on_hang(busy_s)
                return

    threading.Thread(target=watch, name="watchdog", daemon=True).start()


def run_engine(config: ServiceConfig, link_fd: int) -> int:
    """Serve the gateway at the other end of an inherited socket until it says so or is gone.

    Ends the process itself, without cleaning up, when the gateway vanishes (exit 0), when a step
    exceeds its deadline or when the codec's thread fails (exit 70): nothing here may outlive its
    gateway, and a half-broken engine is of no use.

    Args:
        config: Resolved configuration.
        link_fd: A connected Unix stream socket.

    Returns:
        The exit status: 0, or 70 when the engine could not be built or a step failed.
    """
    logs.configure(config.telemetry.level, config.telemetry.format)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the gateway's to act on
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    clock = MonotonicClock()
    link = ThreadLink(socket.socket(fileno=link_fd), on_closed=lambda: os._exit(0))
    try:
        # importing torch takes seconds, in which the gateway may already be gone: the link is first
        from realtime.engine.build import build_engine, prepare_thread  # noqa: PLC0415

        prepare_thread(config.engine.threads)
        engine = build_engine(config, link, clock, on_error=_end_after_codec_error)
        signal.signal(signal.SIGTERM, lambda *_: engine.core.drain())
        watch_deadline(
            clock,
            config.engine.step_deadline_s,
            lambda: [engine.core.busy_since, engine.stage.busy_since],
            _end_after_hang,
        )
        link.send([engine.ready])
        _log.info(
            "engine_ready",
            device=engine.ready.device,
            dtype=engine.ready.dtype,
            is_compiled=engine.ready.is_compiled,
        )
        _serve(engine)
    except LinkClosedError:
        return 0
    except Exception:  # noqa: BLE001 - whatever it was: say it, and let the gateway start a fresh engine
        _log.exception("engine_failed")
        return EXIT_FAILED
    link.close()
    return 0


def _serve(engine: "Engine") -> None:
    """Step until told to stop or drained; wait for messages when there is nothing to compute."""
    core = engine.core
    has_work = False
    while not core.is_stopping and not core.is_drained:
        has_work = core.step(is_idle=not has_work)
    engine.sink.close()


def _end_after_codec_error(error: BaseException) -> NoReturn:
    if isinstance(error, LinkClosedError):
        os._exit(0)
    _log.error("codec_failed", exc_info=error)
    os._exit(EXIT_FAILED)


def _end_after_hang(busy_s: float) -> NoReturn:
    _log.error("step_hung", busy_s=round(busy_s, 3))
    os._exit(EXIT_FAILED)
