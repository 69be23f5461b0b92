# ruff: noqa: E501
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.text.phonemes import NOTHING, Reading, Word
from realtime.text.segment import Segment, SegmentPolicy, TextStream


class LetterFrontEnd:
    """Phonemes are the letters of the text; blank where nothing would be said."""

    def __init__(self):
        self.read_chars = 0

    def read(self, source, offset=0):
        self.read_chars += len(source)
        letters = "".join(c for c in source if c.isalnum() or c == " ").strip()
        if not letters:
            return NOTHING
        words = (Word(0, offset, offset + len(source)),)
        return Reading(text=source.strip(), phonemes=letters, words=words)

    def read_parts(self, source, offset, max_phonemes):
        reading = self.read(source, offset)
        assert len(reading.phonemes) <= max_phonemes
        return [(reading, offset + len(source))] if reading.phonemes else []


WHOLE_SENTENCES = SegmentPolicy(first_min_chars=200, first_max_chars=200, max_chars=240)
SHORT = SegmentPolicy(first_min_chars=10, first_max_chars=20, max_chars=60)

TRICKY = (
    "He paid $3.5M. Dr. Smith left at 3.14 p.m. The U.S. economy, e.g. trade, grew... maybe! Really?!"
    ' "Yes." she said. J. K. Rowling met (Mr. Ortiz.) Then etc. And so on. Main St. The end.\n\n'
    "## Next\n- buy milk 🎉\n1. First\n2. Second é cafe\u0301 👩\u200d🚀 \ud83d\ude00 no. 7 x\r\nlast"
)


def segments(pieces, policy=WHOLE_SENTENCES, front_end=None):
    stream = TextStream(front_end or LetterFrontEnd(), policy)
    released = []
    for piece in pieces:
        released += stream.push(piece)
    return released + stream.end()


def sources(text, policy=WHOLE_SENTENCES):
    return [text[s.start : s.end].strip() for s in segments([text], policy)]


@pytest.mark.parametrize("policy", [WHOLE_SENTENCES, SHORT, SegmentPolicy()])
def test_text_split_at_every_position_gives_the_same_segments(policy):
    whole = segments([TRICKY], policy)
    assert len(whole) > 10
    for at in range(len(TRICKY) + 1):
        assert segments([TRICKY[:at], TRICKY[at:]], policy) == whole
    assert segments(TRICKY, policy) == whole


def test_rows_of_the_shared_evaluation_split_anywhere_give_the_same_segments():
    rows = (Path(__file__).parents[1] / "data" / "normalise.tsv").read_text(encoding="utf-8")
    text = " ".join(row.partition("\t")[0] for row in rows.splitlines())
    whole = segments([text], SHORT)
    assert segments(text, SHORT) == whole
    for width in (2, 3, 5, 7, 11):
        assert segments([text[i : i + width] for i in range(0, len(text), width)], SHORT) == whole


ALPHABET = st.sampled_from(
    [
        *"aAbI1203 .,!?:;-'\"()\n\u00a0é\u0301😀\ud83d\ude00\u200d\u200b",
        "Dr",
        "St",
        ". ",
        " The",
        "$3",
        "p.m.",
    ]
)


@given(st.lists(ALPHABET, max_size=120).map("".join), st.data())
@settings(max_examples=300, deadline=None)
def test_any_text_in_any_pieces_gives_the_same_segments(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    bounds = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(bounds)]
    assert segments(pieces, SHORT) == segments([text], SHORT)


@given(st.lists(ALPHABET, max_size=200).map("".join))
@settings(max_examples=300, deadline=None)
def test_spans_are_contiguous_and_bounded_and_lose_no_letter(text):
    released = segments([text], SHORT)
    covered = 0
    for index, segment in enumerate(released):
        assert segment.index == index
        assert segment.start == covered < segment.end
        covered = segment.end
        assert len(segment.text) <= SHORT.max_chars
    spoken = "".join(s.phonemes for s in released).replace(" ", "")
    assert spoken == "".join(c for c in text if c.isalnum())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ("They raised $3.5M. It helped.", ["They raised $3.5M.", "It helped."]),
        ("Pi is 3.14 or so. Yes.", ["Pi is 3.14 or so.", "Yes."]),
        ("Dr. Smith met Mrs. Ortiz.", ["Dr. Smith met Mrs. Ortiz."]),
        ("J. K. Rowling wrote it. I read it.", ["J. K. Rowling wrote it.", "I read it."]),
        ("Fruit, e.g. Apples, is good.", ["Fruit, e.g. Apples, is good."]),
        ("The U.S. economy grew. Good.", ["The U.S. economy grew.", "Good."]),
        ("The U.S. Senate met.", ["The U.S. Senate met."]),
        ("I left the U.S. The end.", ["I left the U.S.", "The end."]),
        ("It is 5 p.m. We go.", ["It is 5 p.m.", "We go."]),
        ("He lives on Main St. He is old.", ["He lives on Main St.", "He is old."]),
        ("See No. 7 now. No. I won't.", ["See No. 7 now.", "No.", "I won't."]),
        ("It is due Sept. 9 or so.", ["It is due Sept. 9 or so."]),
        ("Well... maybe. Well... Maybe.", ["Well... maybe.", "Well...", "Maybe."]),
        ("What?! Really?? Yes!!!", ["What?!", "Really??", "Yes!!!"]),
        ('"Stop." He ran. "Why?" she asked.', ['"Stop."', "He ran.", '"Why?" she asked.']),
        ("(He left.) Then I left.", ["(He left.)", "Then I left."]),
        ("**Bold.** Then plain.", ["**Bold.**", "Then plain."]),
        ("Great!🎉 Next one.", ["Great!🎉", "Next one."]),
        ("See example.com. Then v2.0 came.", ["See example.com.", "Then v2.0 came."]),
        ("1. Buy milk. 2. Go.", ["1. Buy milk.", "2. Go."]),
        ("I saw Dr. A. Smith.", ["I saw Dr. A. Smith."]),
        ("we know it. what now", ["we know it.", "what now"]),
        ("no capitals here. it works.", ["no capitals here.", "it works."]),
        ("A title\n\nThen text\nItem two", ["A title", "Then text", "Item two"]),
        ("one line that was\nwrapped here", ["one line that was\nwrapped here"]),
        ("a:\r\n- b\r\n- c", ["a:", "- b", "- c"]),
        ("So do I. It is fine.", ["So do I.", "It is fine."]),
        ("Ask Acme Inc. They know.", ["Ask Acme Inc.", "They know."]),
        ("Nuts, bolts, etc. are here.", ["Nuts, bolts, etc. are here."]),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text, expected):
    assert sources(text) == expected


@pytest.mark.parametrize(
    "text", ["It costs $3.", "Ask Dr.", "Pi is 3.", "The U.S. S", "Fruit, e.g.", "Really?", "So..."]
)
def test_nothing_is_decided_on_text_that_could_still_change(text):
    stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
    assert stream.push(text) == []
    assert len(stream.flush()) == 1


def test_sentence_is_released_with_the_first_character_behind_it():
    stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
    assert stream.push("Hello there. ") == []
    assert [s.phonemes for s in stream.push("H")] == ["Hello there"]


def test_paragraph_is_released_without_waiting_for_the_next_one():
    stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
    assert [s.ends_sentence for s in stream.push("A title\n\n")] == [True]


def test_first_segment_ends_at_the_first_clause_past_its_minimum():
    policy = SegmentPolicy(first_min_chars=12, first_max_chars=60)
    text = "Well, if you like, we go, and then we rest, but not long."
    first, *rest = segments([text], policy)
    assert text[: first.end] == "Well, if you like, "
    assert not first.ends_sentence
    assert [text[s.start : s.end] for s in rest] == ["we go, and then we rest, but not long."]


def test_first_segment_prefers_an_early_clause_to_a_word_gap():
    policy = SegmentPolicy(first_min_chars=40, first_max_chars=60)
    text = "I can't reach the router from here and now, please check whether the small light is on."
    short = text.replace(" from here and now", "")
    for source in (text, short):
        assert source[: segments([source], policy)[0].end].endswith(", ")


def test_first_segment_without_clauses_ends_before_a_connective():
    policy = SegmentPolicy(first_min_chars=12, first_max_chars=40)
    text = "The orchestra will tour nine cities before it records again in autumn."
    assert text[: segments([text], policy)[0].end] == "The orchestra will tour nine cities "


def test_first_segment_never_splits_what_is_read_as_one():
    policy = SegmentPolicy(first_min_chars=1, first_max_chars=1, max_chars=60)
    text = "Pay Dr. Smith 3 million dollars on March 3, 2024 for World War II."
    inside = [s.end for s in segments([text], policy)][:-1]
    for glued in ("Dr. Smith", "3 million", "March 3, 2024", "War II"):
        at = text.index(glued)
        assert not [end for end in inside if at < end < at + len(glued)]


def test_long_sentence_is_cut_at_clause_then_word_then_anywhere():
    clauses = "the river rose slowly, " * 8
    assert all(s.endswith(",") for s in sources(clauses, SHORT)[1:-1])
    words = "rain falls softly down " * 8
    assert all(s.split()[-1] in ("rain", "falls", "softly", "down") for s in sources(words, SHORT))
    assert all(len(s) <= SHORT.max_chars for s in sources("x" * 200, SHORT))


def test_hard_cut_keeps_a_base_and_its_marks_together():
    text = "e\u0301" * 100
    for segment in segments([text], SHORT):
        assert text[segment.start] != "\u0301"


def test_flush_releases_everything_and_spans_go_on():
    stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
    first = stream.push("Hello wor") + stream.flush()
    second = stream.push("ld. Bye") + stream.end()
    assert [(s.start, s.end, s.ends_sentence) for s in first] == [(0, 9, False)]
    assert [(s.start, s.end) for s in second] == [(9, 13), (13, 16)]
    assert second[-1].ends_sentence


def test_flush_decides_what_waited_for_a_word():
    stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
    assert stream.push("I left the U.S. The") == []
    assert [s.phonemes for s in stream.flush()] == ["I left the US", "The"]


@pytest.mark.parametrize(
    "text", ["", " \n\t ", "...", "?!", "😀🎉", "\x00\x01\x02", "\u200f\u202e", "()[]"]
)
def test_text_that_says_nothing_gives_no_segment(text, front_end):
    assert segments([text, text], SHORT, front_end) == []


def test_unspoken_text_belongs_to_the_next_segment():
    released = segments(["😀😀\n\nHello."], front_end=LetterFrontEnd())
    assert [(s.start, s.end) for s in released] == [(0, 10)]


HOSTILE = [
    "a", "1", "a-", "A.", "a'", "<", "[", "(", "*", "_", "`", ".", "!", ",", "\x00", "\u200f", "漢", "Я", "é",
    "\u0301", "😀", "\ud83d", " ", "\n", "a, ", "1,", "1/", "$", "@a.", "http://", "x.com/", "\\", "|", "Dr. ",
    "U.S. ", "A B", "1:", "-1", "a b ", "I", "no. ", "#a",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
def test_work_on_hostile_text_grows_linearly(unit, monkeypatch):
    from realtime.text.scanner import Scanner

    added = 0
    add = Scanner.add

    def counting_add(scanner, character):
        nonlocal added
        added += 1
        return add(scanner, character)

    monkeypatch.setattr(Scanner, "add", counting_add)
    front_end = LetterFrontEnd()
    text = unit * (20_000 // len(unit))
    stream = TextStream(front_end, SegmentPolicy())
    for segment in stream.push(text) + stream.end():
        assert len(segment.phonemes) <= SegmentPolicy().max_phonemes
    # Every cut takes at least a third of the longest segment or ends a sentence, so that no
    # character is looked at more than a few times.
    assert added <= 5 * len(text)
    assert front_end.read_chars <= 3 * len(text)


def test_segment_reports_the_character_that_speech_has_reached():
    words = (Word(0, 100, 104), Word(8, 105, 110))
    segment = Segment(
        index=0, text="", start=98, end=112, phonemes="x" * 16, ends_sentence=True, words=words
    )
    assert [segment.character_at(p) for p in (0, 1, 8, 15, 16)] == [98, 104, 110, 110, 112]


@pytest.mark.parametrize("wrong", [{"first_min_chars": 90}, {"max_chars": 50}])
def test_policy_refuses_lengths_in_the_wrong_order(wrong):
    with pytest.raises(ValueError, match="first_min_chars <= first_max_chars <= max_chars"):
        SegmentPolicy(**wrong)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Plain text, caf\u00e9 and na\u00efve.", 0),
        ("hello \u4f60\u597d friend", 2),
        ("\u041f\u0440\u0438\u0432\u0435\u0442", 6),
        ("the angle \u03b1 is small", 0),
        ("\u0393\u03b5\u03b9\u03b1 you", 4),
        ("\uff46\uff55\uff4c\uff4c width, \U0001d41b\U0001d428\U0001d42b\U0001d41d", 0),
        ("\U0001f600 !? \u00a7", 0),
    ],
)
def test_letters_of_scripts_that_are_not_read_are_counted(text, count):
    for pieces in ([text], list(text)):
        stream = TextStream(LetterFrontEnd(), WHOLE_SENTENCES)
        for piece in pieces:
            stream.push(piece)
        assert stream.num_unspoken == count
