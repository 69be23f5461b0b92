"""Structured logs on standard error: one snake_case event a line, for people or for machines."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]


def configure(level: Level, format: Format) -> None:
    """Set up structlog for this process, and send warnings of libraries the same way. May be called
    again.

    Args:
        level: Least severe event that is shown.
        format: `auto` writes for people on a terminal, JSON otherwise.
    """
    is_json = format == "json" or (format == "auto" and not sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if is_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=shared + renderer,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
