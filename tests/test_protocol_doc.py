"""docs/PROTOCOL.md says what the code does."""

import re
from pathlib import Path

import msgspec
import pytest

from realtime import wire
from realtime.errors import ConfigError, all_error_types
from realtime.telemetry.stages import RequestStages

PAGE = (Path(__file__).parents[1] / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(json|hex) (.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
DECODERS = {"client": wire.decode_client_message, "server": wire.decode_server_message}
JSON_EXAMPLES = [(side, body) for kind, side, body in BLOCKS if kind == "json"]
HEX_EXAMPLES = [(info, body) for kind, info, body in BLOCKS if kind == "hex"]
INTERNAL_CODES = {ConfigError.code}  # meets whoever starts the service, never a caller


@pytest.mark.parametrize(("side", "body"), JSON_EXAMPLES)
def test_example_decodes_and_encodes_to_the_same_message(side, body):
    message = DECODERS[side](body)
    again = msgspec.json.decode(wire.encode_message(message))
    assert again == msgspec.json.decode(body)


def test_every_message_type_has_an_example_under_its_heading():
    for side, union in (("client", wire.ClientMessage), ("server", wire.ServerMessage)):
        kinds = {kind.__struct_config__.tag for kind in union.__args__}
        shown = {
            msgspec.json.decode(body)["type"] for given, body in JSON_EXAMPLES if given == side
        }
        assert shown == kinds
        assert kinds <= set(re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE))


@pytest.mark.parametrize(("info", "body"), HEX_EXAMPLES)
def test_audio_frame_decodes_as_stated(info, body):
    data = bytes.fromhex(body)
    frame = wire.AudioFrame.decode(data)
    stated = dict(pair.split("=") for pair in info.split()[1:])
    assert frame.number == int(stated["number"])
    assert frame.sample_offset == int(stated["sample_offset"])
    assert frame.is_last == (stated["is_last"] == "true")
    assert frame.encode() == data


def test_both_kinds_of_audio_frame_are_shown():
    assert len(HEX_EXAMPLES) == 2


def test_every_error_code_is_listed_with_its_close_code_and_whether_to_retry():
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (\d*) ?\| (yes|no) \|", PAGE, re.MULTILINE)
    listed = {code: (ends, close, retry) for code, ends, close, retry in rows}
    kinds = {
        code: kind
        for code, kind in all_error_types().items()
        if kind.__module__ == "realtime.errors"
    }
    assert set(listed) == set(kinds) - INTERNAL_CODES
    for code, (ends, close, retry) in listed.items():
        assert (retry == "yes") == kinds[code].is_retryable, code
        assert bool(close) == ("session" in ends), code
        if close:
            assert int(close) == kinds[code].close_code, code


def test_every_metric_is_defined():
    table = PAGE.split("## 6. Metrics")[1]
    defined = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert defined >= set(wire.Metrics.__struct_fields__)


def test_figures_of_the_service_are_the_metrics_of_the_wire():
    assert set(RequestStages(opened_at=0.0).figures(24_000)) == set(wire.Metrics.__struct_fields__)
