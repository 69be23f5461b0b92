import pytest

from realtime.text.phonemes import FrontEnd


@pytest.fixture(scope="session")
def front_end():
    return FrontEnd()
