"""What /metrics says."""

from prometheus_client.parser import text_string_to_metric_families

from realtime import wire
from realtime.telemetry.metrics import ServiceMetrics
from realtime.telemetry.stages import RequestStages


def families(metrics: ServiceMetrics) -> dict:
    body, _ = metrics.render()
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def test_every_metric_has_the_prefix_help_and_no_ids():
    for name, family in families(ServiceMetrics()).items():
        assert name.startswith("speech_")
        assert family.documentation
        for sample in family.samples:
            assert set(sample.labels) <= {"le", "outcome", "code", "reason"}


def test_request_is_counted_in_each_histogram_that_it_has_a_figure_for():
    metrics = ServiceMetrics()
    figures = RequestStages(opened_at=1.0, released_at=1.5).figures(24_000)
    metrics.observe_request(figures, outcome="error")
    counts = {
        sample.name.removeprefix("speech_request_").removesuffix("_count"): sample.value
        for family in families(metrics).values()
        for sample in family.samples
        if sample.name.startswith("speech_request_") and sample.name.endswith("_count")
    }
    assert {name for name, value in counts.items() if value} == {
        "text_wait_seconds",
        "audio_seconds",
        "underrun_seconds",
    }


def test_every_figure_on_the_wire_has_a_histogram_or_a_counter():
    metrics = ServiceMetrics()
    with_histogram = set(metrics._histograms)
    assert set(wire.Metrics.__struct_fields__) - with_histogram == {"tokens", "underruns"}


def test_two_services_in_one_process_do_not_share_counts():
    first, second = ServiceMetrics(), ServiceMetrics()
    first.sessions.inc()
    assert families(second)["speech_sessions"].samples[0].value == 0
