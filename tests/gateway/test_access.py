import pytest

from realtime.config import GatewayConfig
from realtime.gateway.access import refusal

OFFERED = ["speech.v1"]


@pytest.mark.parametrize("origin", ["http://[", "https://evil.example", "null", "http://localhost"])
def test_origin_that_is_not_this_host_is_refused(origin):
    headers = {"origin": origin, "host": "127.0.0.1:8765"}
    refused = refusal(headers, OFFERED, GatewayConfig())
    assert refused is not None
    assert refused[0] == 403


def test_page_of_this_very_host_is_let_in():
    headers = {"origin": "http://127.0.0.1:8765", "host": "127.0.0.1:8765"}
    assert refusal(headers, OFFERED, GatewayConfig()) is None
