"""What an engine says of itself, as metrics: gauges that follow its reports, counters that grow by
the difference of two. Every one is declared here once.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from realtime.messages import CapacityReport

# field of the report -> name, help
_GAUGES = {
    "num_running": ("running_requests", "Requests that hold a slot"),
    "num_waiting": ("waiting_requests", "Requests that wait for their start"),
    "num_parked": ("parked_requests", "Requests with a slot that are ahead of their listener"),
    "most_streams": ("most_streams", "Listeners that keep their rate, as measured now"),
    "step_correction": (
        "step_correction_ratio",
        "Duration of steps now over that at calibration",
    ),
    "max_streams": ("max_streams", "Slots"),
    "free_blocks": ("free_blocks", "Free key-value blocks"),
    "num_blocks": ("blocks", "Key-value blocks"),
    "step_s": ("step_seconds", "Smoothed duration of a decode step"),
    "codec_s": ("codec_seconds", "Smoothed codec time of a frame batch"),
    "resident_bytes": ("resident_bytes", "Memory of the engine process"),
}
_COUNTERS = {
    "num_tokens_total": ("tokens", "Speech tokens generated"),
    "num_steps_total": ("steps", "Steps run"),
    "num_late_total": ("listeners_dry", "Times that a listener was found waiting in silence"),
    "num_preempted_total": ("preemptions", "Requests that lost their key-value blocks to another"),
    "num_prefilled_tokens_total": (
        "prefilled_tokens",
        "Tokens computed more than one at a time: prompts and what is computed again",
    ),
    "num_hit_tokens_total": ("prefix_hit_tokens", "Tokens that the prefix cache had instead"),
}
# field of the report -> name, help, label
_LABELLED_COUNTERS = {
    "num_refused_total": ("refused", "Requests told to come back later", "reason"),
    "num_mended_total": ("mended_segments", "Segments drawn anew from before a fault", "fault"),
    "num_given_up_total": ("guarded_segments", "Segments ended because of a fault", "fault"),
    "phase_s_total": (
        "step_phase_seconds",
        "Time in forward passes that only decode, only prefill or do both, and around them",
        "phase",
    ),
}


class EngineLoad:
    """The metrics of the engine's reports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = {
            field: Gauge(f"speech_engine_{name}", text, registry=registry)
            for field, (name, text) in _GAUGES.items()
        }
        self._counters = {
            field: Counter(f"speech_engine_{name}", text, registry=registry)
            for field, (name, text) in _COUNTERS.items()
        }
        self._labelled = {
            field: Counter(f"speech_engine_{name}", text, [label], registry=registry)
            for field, (name, text, label) in _LABELLED_COUNTERS.items()
        }
        self._tokens_per_s = Gauge(
            "speech_tokens_per_second",
            "Speech tokens per second of the whole service",
            registry=registry,
        )
        self._last: CapacityReport | None = None

    def take(self, report: CapacityReport) -> None:
        """Follow the running engine's next report."""
        last = self._last
        self._last = report
        for field, gauge in self._gauges.items():
            gauge.set(getattr(report, field))
        for field, counter in self._counters.items():
            _grow(counter, getattr(report, field), getattr(last, field, 0))
        for field, counter in self._labelled.items():
            before: dict[str, float] = getattr(last, field, {})
            for label, total in getattr(report, field).items():
                _grow(counter.labels(label), total, before.get(label, 0))
        if last is not None and report.at > last.at:
            num_tokens = report.num_tokens_total - last.num_tokens_total
            self._tokens_per_s.set(num_tokens / (report.at - last.at))

    def lose(self) -> None:
        """The engine is gone; the next one counts from 0."""
        self._last = None
        self._tokens_per_s.set(0)


def _grow(counter: Counter, total: float, before: float) -> None:
    counter.inc(max(0, total - before))
