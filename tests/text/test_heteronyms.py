# ruff: noqa: RUF001
"""Words that are said differently by what they mean."""

import pytest


@pytest.mark.parametrize(
    ("source", "phonemes"),
    [
        ("I read it yesterday.", "ɹˈɛd"),
        ("I will read it.", "ɹˈid"),
        ("a lead pipe", "lˈɛd"),
        ("Lead poisoning is rare.", "lˈɛd"),
        ("They lead the way.", "lˈid"),
        ("We live here.", "lˈɪv"),
        ("a live show", "lˈIv"),
        ("The wind blew.", "wˈɪnd"),
        ("Cold wind through the trees", "wˈɪnd"),
        ("Wind the clock.", "wˈInd"),
        ("It is time to wind down.", "wˈInd"),
        ("They wound up in jail.", "wˈWnd"),
        ("a deep wound", "wˈund"),
        ("A tear fell.", "tˈɪɹ"),
        ("Tear it up.", "tˈɛɹ"),
        ("I object to that.", "əbʤˈɛkt"),
        ("an object", "ˈɑbʤəkt"),
        ("She was content.", "kəntˈɛnt"),
        ("More content is coming.", "kˈɑntɛnt"),
        ("minute details", "mInˈut"),
        ("a minute ago", "mˈɪnət"),
        ("Send me your resume.", "ɹˈɛzəmˌA"),
        ("We resume at noon.", "ɹəzˈum"),
        ("They bow to the king.", "bˈW"),
        ("a bow and arrow", "bˈO"),
        ("You reap what you sow.", "sˈO"),
        ("Please close the door.", "klˈOz"),
        ("He is close to me.", "klˈOs"),
        ("Record a song.", "ɹəkˈɔɹd"),
        ("a new record", "ɹˈɛkəɹd"),
    ],
)
def test_neighbours_decide_how_a_word_is_said(front_end, source, phonemes):
    assert phonemes in front_end.read(source).phonemes


def test_a_word_is_said_alike_in_capitals(front_end):
    assert front_end.read("LEAD pipe").phonemes.startswith("lˈɛd")
