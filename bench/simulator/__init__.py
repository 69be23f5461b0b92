"""Many callers, one scheduler, no model: the engine's own decisions under a clock that is moved."""
