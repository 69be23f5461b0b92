"""The async client of the `speech.v1` protocol, as used by people, the CLI and the load tester.

```python
async with connect("ws://127.0.0.1:8765") as session:
    async for chunk in session.speak("Hello there."):
        play(chunk.pcm)
```

One connection carries many utterances, several at once. Each has a buffer of its own, bounded by
`Buffering.max_buffered_bytes`. **When a buffer is full** the client stops reading the socket, so
that the service holds back, until the consumer takes something; the session's other utterances
wait meanwhile. A consumer that takes nothing for `Buffering.stall_timeout_s` loses its utterance
alone: it is cancelled and ends with `SlowConsumerError`, and the others go on.

The client knows the wire format and nothing of the service behind it. Read `session.py` first.
"""

from realtime.client.errors import (
    ConnectionLostError,
    ServiceUnreachableError,
    SlowConsumerError,
    error_from_wire,
)
from realtime.client.inbox import AudioChunk, Buffering, Event
from realtime.client.opening import DEFAULT_URL, stream_url
from realtime.client.session import Session, connect
from realtime.client.utterance import Utterance

__all__ = [
    "DEFAULT_URL",
    "AudioChunk",
    "Buffering",
    "ConnectionLostError",
    "Event",
    "ServiceUnreachableError",
    "Session",
    "SlowConsumerError",
    "Utterance",
    "connect",
    "error_from_wire",
    "stream_url",
]
