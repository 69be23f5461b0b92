"""Wire messages: what is accepted, what is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime import wire


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{}",
        "null",
        '{"type":"text"}',
        '{"type":"text","context":"","text":"x"}',
        '{"type":"text","context":"' + "x" * 129 + '","text":"x"}',
        '{"type":"text","context":"a","text":1}',
        '{"type":"text","context":"a","text":"x","txet":"y"}',
        '{"type":"hello","outputs":[]}',
        '{"type":"hello","outputs":["video"]}',
        '{"type":"hello","sampling":{"temperature":2.5}}',
        '{"type":"hello","sampling":{"top_p":0}}',
        '{"type":"hello","sampling":{"seed":-1}}',
        '{"type":"hello","max_contexts":0}',
        '{"type":"played","context":"a","samples":-1}',
        '{"type":"ready"}',
        '{"type":"ping","nonce":"' + "x" * 129 + '"}',
        '{"type":"ping"} {"type":"ping"}',
        "[" * 100_000,
        '{"x":' + "[" * 100_000,
    ],
)
def test_client_message_out_of_form_is_refused(data):
    with pytest.raises(msgspec.DecodeError):
        wire.decode_client_message(data)


def test_defaults_are_left_out_on_the_wire():
    assert wire.encode_message(wire.Hello()) == '{"type":"hello"}'


@given(
    number=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 2**63),
    pcm=st.binary(max_size=64).map(lambda data: data[: len(data) // 2 * 2]),
    is_last=st.booleans(),
)
def test_audio_frame_survives_the_wire(number, offset, pcm, is_last):
    frame = wire.AudioFrame(number, offset, pcm, is_last)
    assert wire.AudioFrame.decode(frame.encode()) == frame


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:15],
        lambda d: d + b"x",
        lambda d: b"\2" + d[1:],
        lambda d: d[:1] + b"\7" + d[2:],
    ],
)
def test_audio_frame_out_of_form_is_refused(change):
    data = wire.AudioFrame(1, 0, b"\0\0").encode()
    with pytest.raises(ValueError, match="audio frame"):
        wire.AudioFrame.decode(change(data))


@given(st.text())
def test_any_text_is_carried_verbatim(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # a lone surrogate cannot be sent as UTF-8
    message = wire.Text(context="a", text=text)
    assert wire.decode_client_message(wire.encode_message(message)) == message


def test_a_piece_may_end_inside_a_surrogate_pair():
    message = wire.decode_client_message(r'{"type":"text","context":"a","text":"Hi \ud83d"}')
    assert message == wire.Text(context="a", text="Hi \ud83d")


@pytest.mark.parametrize(
    "text",
    [
        r'{"type":"text","context":"\ud83d","text":"Hi"}',
        r'{"type":"flush","context":"\ud83d"}',
        r'{"type":"text","context":"a","text":"Hi \ud83d","volume":NaN}',
    ],
)
def test_half_a_character_elsewhere_is_malformed(text):
    with pytest.raises(msgspec.DecodeError):
        wire.decode_client_message(text)
