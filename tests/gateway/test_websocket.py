"""The socket below a session, without a network: what a flood may cost, what the peer is told."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from realtime import wire
from realtime.gateway.websocket import FLOOD_TURNS, FRAMES_A_TURN, GatewaySocket

HEAD = (
    b"GET /v1/stream HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PING = Frame(Opcode.PING, b"?").serialize(mask=True)
EMPTY_PING = Frame(Opcode.PING, b"").serialize(mask=True)
EMPTY_PART = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)


class Task:
    def add_done_callback(self, callback):
        pass


class Timer:
    def __init__(self, delay, callback):
        self.delay, self.callback, self.is_cancelled = delay, callback, False

    def cancel(self):
        self.is_cancelled = True


class Loop:
    def __init__(self):
        self.timers: list[Timer] = []

    def create_task(self, coroutine):
        coroutine.close()
        return Task()

    def call_later(self, delay, callback, *args):
        self.timers.append(Timer(delay, lambda: callback(*args)))
        return self.timers[-1]

    def call_soon(self, callback, *args):
        return self.call_later(0, callback, *args)

    def time(self):
        return 0.0

    def run_next(self) -> bool:
        due = [t for t in self.timers if not t.is_cancelled and t.delay < 1]
        if due:
            self.timers.remove(due[0])
            due[0].callback()
        return bool(due)


class Transport:
    def __init__(self):
        self.written: list[bytes] = []
        self.is_reading, self.is_closed = True, False

    def get_extra_info(self, name, default=None):
        return default

    def write(self, data):
        self.written.append(bytes(data))

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def close(self):
        self.is_closed = True

    abort = close

    def is_closing(self):
        return self.is_closed


@pytest.fixture
def peer():
    """A socket behind its handshake, over a transport and a loop of our own."""
    config = uvicorn.Config(lambda: None, ws_ping_interval=None, ws_max_size=1000, log_config=None)
    loop = Loop()
    config.load()
    socket = GatewaySocket(config, ServerState(), {}, _loop=loop)
    socket.connection_made(Transport())
    socket.data_received(HEAD)
    socket.conn.send_response(socket.response)
    socket.conn.data_to_send()
    socket.handshake_complete = True
    return socket


def number_of_frames(socket, opcode: Opcode) -> int:
    return sum(data[0] & 0x0F == opcode for data in socket.transport.written)


def test_a_flood_of_pings_is_decoded_a_turn_at_a_time_and_reading_waits(peer):
    peer.data_received(PING * 1000)
    assert number_of_frames(peer, Opcode.PONG) == FRAMES_A_TURN
    assert not peer.transport.is_reading
    turns = 0
    while peer.loop.run_next():
        turns += 1
    assert number_of_frames(peer, Opcode.PONG) == 1000
    assert turns >= 1000 // FRAMES_A_TURN - 1
    assert peer.transport.is_reading


def test_a_flood_without_end_and_without_messages_is_ended(peer):
    peer.data_received(EMPTY_PING * FRAMES_A_TURN * (FLOOD_TURNS + 2))
    turns = 1
    while peer.loop.run_next():
        turns += 1
    assert turns == FLOOD_TURNS
    assert peer.transport.is_closed
    assert b"too_many_frames" in peer.transport.written[-1]
    assert peer.queue.get_nowait()["type"] == "websocket.connect"
    assert peer.queue.get_nowait()["code"] == 1008


def test_floods_with_a_message_now_and_then_go_on(peer):
    async def take() -> None:
        await peer.receive()

    message = Frame(Opcode.TEXT, b"x").serialize(mask=True)
    for _ in range(3):
        peer.data_received(EMPTY_PING * FRAMES_A_TURN * (FLOOD_TURNS - 10) + message)
        while peer.loop.run_next():
            if peer.read_paused:
                while peer.queue.qsize():
                    asyncio.run(take())
    assert not peer.transport.is_closed


def test_pings_of_a_peer_that_does_not_read_are_answered_once(peer):
    peer.pause_writing()
    for number in range(10):
        peer.data_received(Frame(Opcode.PING, b"%d" % number).serialize(mask=True))
    assert peer.transport.written == []
    peer.resume_writing()
    assert peer.transport.written == [Frame(Opcode.PONG, b"9").serialize(mask=False)]


def test_empty_parts_of_a_message_are_not_kept(peer):
    peer.data_received(Frame(Opcode.TEXT, b"Hel", fin=False).serialize(mask=True))
    peer.data_received(EMPTY_PART * 500)
    while peer.loop.run_next():
        pass
    assert peer.frames == [b"Hel"]
    peer.data_received(Frame(Opcode.CONT, b"lo").serialize(mask=True))
    assert peer.queue.get_nowait()["type"] == "websocket.connect"
    assert peer.queue.get_nowait()["text"] == "Hello"


def test_messages_wait_undecoded_until_the_session_takes_the_one_before(peer):
    async def take(number: int) -> list[str]:
        return [(await peer.receive()).get("text") for _ in range(number)]

    words = [b"one", b"two", b"three"]
    peer.data_received(b"".join(Frame(Opcode.TEXT, word).serialize(mask=True) for word in words))
    assert peer.queue.qsize() == 2  # the connection, and the first message
    assert asyncio.run(take(2)) == [None, "one"]
    peer.loop.run_next()
    assert asyncio.run(take(1)) == ["two"]
    peer.loop.run_next()
    assert asyncio.run(take(1)) == ["three"]
    assert peer.transport.is_reading


@pytest.mark.parametrize(
    ("frames", "code", "close_code"),
    [
        (Frame(Opcode.TEXT, b"\xff").serialize(mask=True), "malformed_message", 1007),
        (Frame(Opcode.TEXT, bytes(2000)).serialize(mask=True), "message_too_big", 1009),
        (EMPTY_PART, "protocol_violation", 1002),
        (b"\xff\xff" + bytes(4), "protocol_violation", 1002),
        (Frame(Opcode.TEXT, b"no mask").serialize(mask=False), "protocol_violation", 1002),
    ],
)
def test_what_breaks_the_connection_is_said_in_an_error_and_in_the_close(
    peer, caplog, frames, code, close_code
):
    peer.data_received(frames + PING)
    sent = b"".join(peer.transport.written)
    text_bytes = sent[1] if sent[1] < 126 else int.from_bytes(sent[2:4])
    start = 2 if sent[1] < 126 else 4
    error = wire.decode_server_message(sent[start : start + text_bytes].decode())
    assert error.code == code
    assert sent[start + text_bytes :] == Frame(
        Opcode.CLOSE, close_code.to_bytes(2) + code.encode()
    ).serialize(mask=False)
    assert peer.transport.is_closed
    assert not caplog.records


def test_nothing_is_written_or_decoded_once_the_connection_is_lost(peer):
    peer.data_received(PING * 1000)
    peer.connection_lost(ConnectionResetError())
    num_written = len(peer.transport.written)
    while peer.loop.run_next():
        pass
    assert len(peer.transport.written) == num_written
