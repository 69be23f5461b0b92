import pytest

from tests.client.fake_thread import threaded_fake_server


@pytest.fixture
def server():
    with threaded_fake_server() as running:
        yield running


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
