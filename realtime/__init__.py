"""realtime-speech: a streaming text-to-speech service (gateway, engine, client, command line)."""

__version__ = "0.1.0"
