"""What a service says of itself at `/metrics`."""

import re
from urllib.parse import urlsplit

import anyio

from realtime.client.opening import stream_url


async def read_gauges(url: str) -> dict[str, float]:
    """The service's unlabelled metrics, without their prefix.

    Args:
        url: As for `connect`.

    Raises:
        OSError: It does not answer.
    """
    parts = urlsplit(stream_url(url))
    host, port = parts.hostname or "", parts.port or 80
    request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = b""
    async with await anyio.connect_tcp(host, port) as stream:
        await stream.send(request.encode())
        async for data in stream:
            answer += data
    lines = re.findall(r"^speech_(\w+) (\S+)$", answer.decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}
