"""PCM for a listener: levels and files. Knows no engine, no socket and no torch."""
