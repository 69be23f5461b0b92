"""What /metrics says."""

from prometheus_client.parser import text_string_to_metric_families

from realtime import wire
from realtime.messages import CapacityReport, EngineTimings, Finished
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
            assert set(sample.labels) <= {"le", "outcome", "code", "reason", "fault", "phase"}


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
        "text_underrun_seconds",
    }


def test_every_figure_on_the_wire_has_a_histogram_or_a_counter():
    metrics = ServiceMetrics()
    with_histogram = set(metrics._histograms)
    assert set(wire.Metrics.__struct_fields__) - with_histogram == {
        "tokens",
        "underruns",
        "text_underruns",
    }


def test_two_services_in_one_process_do_not_share_counts():
    first, second = ServiceMetrics(), ServiceMetrics()
    first.sessions.inc()
    assert families(second)["speech_sessions"].samples[0].value == 0


def report(at, **changes) -> CapacityReport:
    values = {name: 0 for name in CapacityReport.__struct_fields__ if not name.startswith("at")}
    labelled = {"num_refused_total", "num_mended_total", "num_given_up_total", "phase_s_total"}
    return CapacityReport(**(values | {name: {} for name in labelled} | {"at": at} | changes))


def value(metrics: ServiceMetrics, name: str, **labels: str) -> float:
    samples = [s for family in families(metrics).values() for s in family.samples]
    (found,) = [s.value for s in samples if s.name == name and s.labels == labels]
    return found


def test_every_field_of_the_engines_report_is_exported():
    metrics = ServiceMetrics()
    before = families(metrics)
    fields = set(CapacityReport.__struct_fields__) - {"at"}
    known = {
        *metrics.engine_load._gauges,
        *metrics.engine_load._counters,
        *metrics.engine_load._labelled,
    }
    assert known == fields
    assert len(before) >= len(fields)


def test_counters_grow_by_the_difference_of_two_reports_of_one_engine():
    metrics = ServiceMetrics()
    load = metrics.engine_load
    load.take(report(1.0, num_tokens_total=100, num_mended_total={"silence": 1}))
    load.take(report(3.0, num_tokens_total=260, num_mended_total={"silence": 3, "repetition": 1}))
    assert value(metrics, "speech_engine_tokens_total") == 260
    assert value(metrics, "speech_tokens_per_second") == 80
    assert value(metrics, "speech_engine_mended_segments_total", fault="silence") == 3
    load.lose()
    assert value(metrics, "speech_tokens_per_second") == 0
    load.take(report(9.0, num_tokens_total=40, num_mended_total={"silence": 1}))
    assert value(metrics, "speech_engine_tokens_total") == 300
    assert value(metrics, "speech_engine_mended_segments_total", fault="silence") == 4


def test_cancelled_request_is_counted_with_the_work_done_after_it():
    metrics = ServiceMetrics()
    for num_steps, freed_s in ((1, 0.012), (0, 0.001)):
        finished = Finished(
            request_id=1,
            reason="cancelled",
            num_tokens=0,
            num_frames=0,
            num_orphaned_steps=num_steps,
            num_orphaned_tokens=num_steps,
            timings=EngineTimings(freed_at=5.0 + freed_s),
        )
        metrics.observe_cancel(finished, cancelled_at=5.0)
    assert value(metrics, "speech_engine_cancel_seconds_count") == 2
    assert value(metrics, "speech_engine_orphaned_steps_bucket", le="0.0") == 1
    assert value(metrics, "speech_engine_orphaned_steps_bucket", le="1.0") == 2
    assert value(metrics, "speech_engine_orphaned_tokens_sum") == 1
