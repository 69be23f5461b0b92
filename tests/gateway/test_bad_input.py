"""Whatever a caller does wrong is answered with a code, and no other session notices."""

import socket

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from realtime import wire
from realtime.config import ServiceConfig
from tests.gateway.harness import HELLO, calling, config_of, running_gateway, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]


async def _answer(running, *messages, hello=HELLO):
    """The first error and the close code that these messages meet, while another session speaks."""
    async with calling(running) as bystander:
        await bystander.send(wire.Text(context="b", text="One."))
        await bystander.until(wire.AudioFrame)
        async with calling(running, hello) as caller:
            await caller.send(*messages)
            error = await caller.until(wire.Error)
            code = await caller.close_code()
        await bystander.send(wire.End(context="b"))
        assert (await bystander.until(wire.Done)).reason == "end_of_speech"
    return error, code


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        "3",
        '{"type":"sing"}',
        '{"text":"x"}',
        '{"type":"ping","volume":1}',
        '{"x":' + "[" * 50_000,
    ],
)
async def test_message_of_no_known_form_is_refused(data):
    async with running_gateway() as running:
        error, code = await _answer(running, data)
    assert (error.code, error.context, code) == ("malformed_message", None, 1007)


async def test_malformed_message_about_a_context_ends_that_context_alone():
    async with running_gateway() as running, calling(running) as caller:
        await caller.send(wire.Text(context="a", text="On"), wire.Text(context="b", text="Two."))
        await caller.send('{"type":"text","context":"a","text":"e.","colour":"red"}')
        error = await caller.until(wire.Error)
        assert (error.code, error.context) == ("malformed_message", "a")
        assert (await caller.until(wire.Done, context="a")).reason == "error"
        await caller.send(wire.Text(context="a", text="ignored"), wire.End(context="b"))
        assert (await caller.until(wire.Done, context="b")).reason == "end_of_speech"
        await caller.send(wire.End(context="a"))
        assert (await caller.speak("a", "Again.")).reason == "end_of_speech"


async def test_text_before_hello_is_refused():
    async with running_gateway() as running:
        error, code = await _answer(running, wire.Text(context="a", text="x"), hello=None)
    assert (error.code, code) == ("out_of_order", 1008)


async def test_missing_hello_is_refused_after_its_timeout():
    async with running_gateway(config_of(hello_timeout_s=0.1)) as running:
        error, code = await _answer(running, hello=None)
    assert (error.code, code) == ("hello_timeout", 1008)


async def test_binary_is_refused():
    async with running_gateway() as running:
        error, code = await _answer(running, b"\x00\x01")
    assert (error.code, code) == ("binary_not_allowed", 1003)


async def test_message_over_the_limit_is_refused():
    async with running_gateway() as running:
        error, code = await _answer(running, wire.Text(context="a", text="x" * 1_000_000))
    assert (error.code, code) == ("message_too_big", 1009)


async def test_invalid_utf8_is_refused():
    async with running_gateway() as running, calling(running) as caller:
        frame = Frame(Opcode.TEXT, b'{"type":"ping","nonce":"\xff\xfe"}')
        caller.socket.transport.write(frame.serialize(mask=True))
        error = await caller.until(wire.Error)
        assert (error.code, await caller.close_code()) == ("malformed_message", 1007)


async def test_unknown_voice_in_hello_ends_the_session_and_in_text_the_context():
    async with running_gateway() as running:
        error, code = await _answer(running, wire.Hello(voice="nobody"), hello=None)
        assert (error.code, code) == ("unknown_voice", 1008)
        async with calling(running) as caller:
            await caller.send(wire.Text(context="a", text="One.", voice="nobody"))
            error = await caller.until(wire.Error)
            assert (error.code, error.context) == ("unknown_voice", "a")
            assert (await caller.speak("b", "Two.")).reason == "end_of_speech"
            assert not any(isinstance(m, wire.Opened) and m.context == "a" for m in caller.received)


async def test_megabyte_of_text_in_pieces_ends_its_context_and_delays_nobody():
    async with (
        running_gateway(config_of(max_text_chars=500_000)) as running,
        calling(running) as caller,
        calling(running) as bystander,
    ):
        for _ in range(10):
            await caller.send(wire.Text(context="a", text="word " * 20_000))
        assert (await bystander.speak("b", "Two.")).reason == "end_of_speech"
        error = await caller.until(wire.Error)
        assert (error.code, error.context) == ("text_too_long", "a")
        assert (await caller.until(wire.Done, context="a")).reason == "error"


async def test_unspeakable_text_ends_its_context():
    async with running_gateway() as running, calling(running) as caller:
        await caller.send(wire.Text(context="a", text="#"), wire.Text(context="b", text="Two."))
        assert (await caller.until(wire.Error)).code == "unspeakable_text"
        await caller.send(wire.End(context="b"))
        reasons = {(await caller.until(wire.Done)).reason for _ in range(2)}
        assert reasons == {"error", "end_of_speech"}


async def test_context_without_text_times_out():
    async with (
        running_gateway(config_of(text_timeout_s=0.2)) as running,
        calling(running) as caller,
    ):
        await caller.send(wire.Text(context="a", text="One."))
        assert (await caller.until(wire.Error)).code == "text_timeout"
        done = await caller.until(wire.Done)
        assert (done.reason, done.samples > 0) == ("error", True)


async def test_reader_that_stops_is_closed_and_holds_little():
    config = config_of(slow_reader_timeout_s=0.5)
    async with running_gateway(config, frames_per_segment=10**6, max_unheard_s=5.0) as running:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            sock.connect(("127.0.0.1", running.port))
            sock.setblocking(False)
            async with (
                calling(running, sock=sock, max_queue=1) as caller,
                calling(running) as other,
            ):
                await caller.send(wire.Text(context="a", text="Long."))
                await until_true(lambda: running.gateway.num_sessions == 1)
                error = await caller.until(wire.Error)
                assert (error.code, await caller.close_code()) == ("slow_reader", 1008)
                num_samples = sum(
                    len(m.pcm) // 2 for m in caller.received if isinstance(m, wire.AudioFrame)
                )
                assert num_samples < 60 * 24_000
                running.fake.frames_per_segment = 4
                assert (await other.speak("b", "Two.")).reason == "end_of_speech"


async def test_engine_that_runs_ahead_costs_its_request_alone():
    config = config_of(max_unsent_bytes=65536)
    async with running_gateway(config, frames_per_segment=4000) as running:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            sock.connect(("127.0.0.1", running.port))
            sock.setblocking(False)
            async with calling(running, sock=sock, max_queue=1) as caller:
                await caller.send(wire.Text(context="a", text="!runaway!."))
                await until_true(lambda: running.fake.num_started == 1)
                await until_true(lambda: running.engine.client.num_requests == 0)
                assert (await caller.until(wire.Error)).code == "engine_failed"
                assert (await caller.until(wire.Done)).reason == "error"


async def _upgrade_status(running, **options) -> tuple[int, dict]:
    options = {"uri": running.url, "subprotocols": [wire.SUBPROTOCOL]} | options
    with pytest.raises(InvalidStatus) as refused:
        async with connect(**options):
            pass
    response = refused.value.response
    return response.status_code, response.headers


async def test_upgrade_is_refused_before_it_happens():
    config = config_of(api_keys=("secret",), allowed_origins=("https://app.example",))
    async with running_gateway(config) as running:
        wrong_key = {"Authorization": "Bearer wrong"}
        assert (await _upgrade_status(running, additional_headers=wrong_key))[0] == 401
        assert (await _upgrade_status(running, origin="https://evil.example"))[0] == 403
        name = f"evil.example:{running.port}"  # resolves to this machine, as in DNS rebinding
        rebound = {"host": "127.0.0.1", "port": running.port, "origin": f"http://{name}"}
        assert (await _upgrade_status(running, uri=f"ws://{name}/v1/stream", **rebound))[0] == 403
        assert (await _upgrade_status(running, subprotocols=None))[0] == 400
        key = {"Authorization": "Bearer secret"}
        async with calling(running, origin="https://app.example", additional_headers=key) as caller:
            assert caller.socket.subprotocol == wire.SUBPROTOCOL
        own_page = f"http://127.0.0.1:{running.port}"
        async with calling(running, wire.Hello(credential="secret"), origin=own_page):
            pass
        error, code = await _answer_without_bystander(running, wire.Hello(credential="wrong"))
        assert (error.code, code) == ("unauthorized", 1008)


async def _answer_without_bystander(running, *messages):
    async with calling(running, None) as caller:
        await caller.send(*messages)
        return await caller.until(wire.Error), await caller.close_code()


async def test_compression_is_declined():
    async with running_gateway() as running, calling(running, compression="deflate") as caller:
        assert "Sec-WebSocket-Extensions" not in caller.socket.response.headers


async def test_session_over_the_limit_is_told_when_to_retry():
    async with running_gateway(config_of(max_sessions=1)) as running:
        async with calling(running):
            status, headers = await _upgrade_status(running)
            assert (status, headers["Retry-After"]) == (503, "5")
        await until_true(lambda: running.gateway.num_sessions == 0)
        async with calling(running):
            pass


async def test_context_over_the_limit_is_refused():
    async with running_gateway() as running, calling(running, wire.Hello(max_contexts=1)) as caller:
        await caller.send(wire.Text(context="a", text="One."), wire.Text(context="b", text="Two."))
        error = await caller.until(wire.Error)
        assert (error.code, error.context) == ("too_many_contexts", "b")
        await caller.send(wire.End(context="a"))
        assert (await caller.until(wire.Done)).context == "a"


async def test_full_engine_refuses_with_a_time_to_retry():
    options = {"max_streams": 1, "max_waiting": 0, "frames_per_segment": 10**6, "frame_s": 0.01}
    async with running_gateway(**options) as running, calling(running) as caller:
        await caller.send(wire.Text(context="a", text="One."))
        await caller.until(wire.AudioFrame)
        await caller.send(wire.Text(context="b", text="Two."))
        error = await caller.until(wire.Error)
        assert (error.code, error.context, error.retryable) == ("at_capacity", "b", True)
        assert error.retry_after_s == 1.5
        assert (await caller.until(wire.Done, context="b")).reason == "error"


async def test_http_endpoints_answer():
    async with running_gateway() as running, calling(running) as caller:
        await caller.speak("a", "One.")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{running.port}") as http:
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).status_code == 200
            metrics = (await http.get("/metrics")).text
            assert 'speech_requests_total{outcome="end_of_speech"} 1.0' in metrics
            assert "speech_request_ttfb_seconds_count 1.0" in metrics
            running.engine.client, client = None, running.engine.client
            not_ready = await http.get("/readyz")
            assert (not_ready.status_code, not_ready.headers["retry-after"]) == (503, "4")
            running.engine.client = client


def test_default_address_is_this_machine_alone():
    assert ServiceConfig().gateway.host == "127.0.0.1"


async def test_fault_of_ours_ends_one_session_with_a_code():
    def broken_source(first_min_chars):
        raise RuntimeError("a bug")

    async with running_gateway() as running:
        services = running.gateway._services
        running.gateway._services = msgspec.structs.replace(services, new_text_source=broken_source)
        async with calling(running) as caller:
            running.gateway._services = services
            async with calling(running) as bystander:
                await caller.send(wire.Text(context="a", text="One."))
                assert (await caller.until(wire.Error)).code == "internal"
                assert await caller.close_code() == 1011
                assert (await bystander.speak("b", "Two.")).reason == "end_of_speech"
        await until_true(lambda: running.engine.client.num_requests == 0)
