"""Every metric of the service, declared once with its unit and meaning. Prefix `speech_`, base
units, closed label sets, no ids.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from realtime.messages import Finished
from realtime.telemetry.engine_load import EngineLoad

_LATENCY_BUCKETS_S = (
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0,
)  # fmt: skip
_SLOT_FREE_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_TPOT_BUCKETS_S = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.004,
    0.006,
    0.008,
    0.01,
    0.0122,
    0.015,
    0.02,
    0.05,
)
_LENGTH_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_UNDERRUN_BUCKETS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_ORPHANED_STEPS_BUCKETS = (0.0, 1.0, 2.0, 4.0, 8.0)
_ORPHANED_TOKENS_BUCKETS = (0.0, 1.0, 2.0, 8.0, 64.0, 512.0)
_FACTOR_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
_RATE_BUCKETS_HZ = (20.0, 40.0, 60.0, 82.0, 100.0, 150.0, 200.0, 400.0, 800.0, 1600.0)

_REQUEST_HISTOGRAMS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "text_wait_s": (
        "text_wait_seconds",
        "First piece of text to the one that released a segment",
        _LATENCY_BUCKETS_S,
    ),
    "queue_s": ("queue_seconds", "First segment in the engine to a slot", _LATENCY_BUCKETS_S),
    "ttft_s": (
        "ttft_seconds",
        "Release of the first segment to the first speech token",
        _LATENCY_BUCKETS_S,
    ),
    "ttfb_s": (
        "ttfb_seconds",
        "Release of the first segment to the first audio byte",
        _LATENCY_BUCKETS_S,
    ),
    "audible_s": (
        "audible_seconds",
        "Release of the first segment to the first audible sample",
        _LATENCY_BUCKETS_S,
    ),
    "first_sentence_s": (
        "first_sentence_seconds",
        "Release of the first segment to the last sample of the first sentence",
        _LATENCY_BUCKETS_S,
    ),
    "total_s": ("total_seconds", "First piece of text to the end", _LENGTH_BUCKETS_S),
    "tpot_s": (
        "tpot_seconds",
        "Time per speech token while neither parked nor short of text",
        _TPOT_BUCKETS_S,
    ),
    "tokens_per_s": (
        "tokens_per_second",
        "Speech tokens per second of one stream, likewise",
        _RATE_BUCKETS_HZ,
    ),
    "audio_s": ("audio_seconds", "Length of the audio generated", _LENGTH_BUCKETS_S),
    "real_time_factor": (
        "real_time_factor",
        "Compute time by audio time, likewise; below 1 keeps up",
        _FACTOR_BUCKETS,
    ),
    "underrun_s": (
        "underrun_seconds",
        "Silence heard by a listener that starts at the first byte, its text being there",
        _UNDERRUN_BUCKETS_S,
    ),
    "text_underrun_s": (
        "text_underrun_seconds",
        "Silence that began before the next text had reached the engine",
        _UNDERRUN_BUCKETS_S,
    ),
    "text_resume_s": (
        "text_resume_seconds",
        "Longest part of such a silence that came after the text",
        _LATENCY_BUCKETS_S,
    ),
    "slot_free_s": ("slot_free_seconds", "Cancel to slot and memory free", _SLOT_FREE_BUCKETS_S),
}


class ServiceMetrics:
    """The process's metrics, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"speech_{name}", text, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"speech_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"speech_{name}", text, buckets=buckets, registry=registry)

        self.sessions = gauge("sessions", "Open sessions")
        self.contexts = gauge("contexts", "Open contexts")
        self.sessions_refused = counter("sessions_refused", "Upgrades refused", "reason")
        self.requests = counter("requests", "Contexts that are over", "outcome")
        self.errors = counter("errors", "Errors answered", "code")
        self.audio_sent_s = counter("audio_sent_seconds", "Audio given to sockets")
        self.underruns = counter(
            "underruns",
            "Times a listener ran dry that starts at the first byte, its text being there",
        )
        self.text_underruns = counter(
            "text_underruns", "Times it ran dry before the next text had reached the engine"
        )
        self.engine_ready = gauge("engine_ready", "1 while the engine takes requests")
        self.engine_restarts = counter("engine_restarts", "Engine processes lost and replaced")
        self.engine_late = counter(
            "engine_late_messages", "Messages of requests already over, dropped"
        )
        self.engine_load = EngineLoad(registry)
        self._cancel_s = histogram(
            "engine_cancel_seconds",
            "Cancel, error or disconnect in the gateway to slot and blocks free",
            _SLOT_FREE_BUCKETS_S,
        )
        self._orphaned_steps = histogram(
            "engine_orphaned_steps",
            "Steps that worked for a request after it was given up",
            _ORPHANED_STEPS_BUCKETS,
        )
        self._orphaned_tokens = histogram(
            "engine_orphaned_tokens",
            "Tokens, prompts included, computed by those steps for it",
            _ORPHANED_TOKENS_BUCKETS,
        )
        self._histograms = {
            figure: histogram(f"request_{name}", text, buckets)
            for figure, (name, text, buckets) in _REQUEST_HISTOGRAMS.items()
        }

    def observe_request(self, figures: Mapping[str, float | int | None], *, outcome: str) -> None:
        """Count a request that is over.

        Args:
            figures: `RequestStages.figures`.
            outcome: Its `done` reason, or `abandoned`.
        """
        self.requests.labels(outcome=outcome).inc()
        self.underruns.inc(figures.get("underruns") or 0)
        self.text_underruns.inc(figures.get("text_underruns") or 0)
        for figure, histogram in self._histograms.items():
            value = figures.get(figure)
            if value is not None:
                histogram.observe(value)

    def observe_cancel(self, finished: Finished, cancelled_at: float) -> None:
        """Count the end of a request that was given up at `cancelled_at`."""
        self._cancel_s.observe(max(0.0, finished.timings.freed_at - cancelled_at))
        self._orphaned_steps.observe(finished.num_orphaned_steps)
        self._orphaned_tokens.observe(finished.num_orphaned_tokens)

    def render(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
