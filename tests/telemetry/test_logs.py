"""Log lines for machines and for people."""

import json
import logging

import pytest
import structlog

from realtime.telemetry import logs


@pytest.fixture(autouse=True)
def _restore():
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)


def test_json_line_holds_event_level_time_and_fields(capsys):
    logs.configure("info", "json")
    structlog.get_logger().info("request_done", tokens=7)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["tokens"]) == ("request_done", "info", 7)
    assert line["timestamp"].endswith("Z")


def test_less_severe_events_are_left_out(capsys):
    logs.configure("warning", "json")
    structlog.get_logger().info("quiet")
    assert capsys.readouterr().err == ""


def test_console_format_is_for_people(capsys):
    logs.configure("info", "console")
    structlog.get_logger().info("service_ready", port=1)
    assert "service_ready" in capsys.readouterr().err


def test_warnings_of_libraries_come_the_same_way(capsys):
    logs.configure("info", "json")
    logging.getLogger("uvicorn.error").warning("odd %s", "thing")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("odd thing", "warning")


def test_traceback_is_part_of_the_line(capsys):
    logs.configure("info", "json")
    try:
        int("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: invalid literal" in json.loads(capsys.readouterr().err)["exception"]
