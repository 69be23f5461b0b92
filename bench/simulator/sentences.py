"""Sentences as the engine gets them: segments with their characters and phonemes.

`sentences.tsv` is what the text front end makes of the sentences that the service is judged on, so
that a simulation needs neither text nor a phoneme library. To make it again:

    python -m bench.simulator.sentences SENTENCES.txt
"""

import sys
from functools import cache
from pathlib import Path

import msgspec

from realtime.text.phonemes import FrontEnd
from realtime.text.segment import SegmentPolicy, TextStream

TABLE = Path(__file__).with_name("sentences.tsv")


class Piece(msgspec.Struct, frozen=True):
    """A segment of text.

    Attributes:
        num_chars: Characters of the caller's text.
        num_phonemes: Phonemes in it.
    """

    num_chars: int
    num_phonemes: int


class Sentence(msgspec.Struct, frozen=True):
    """One sentence.

    Attributes:
        first: Its segments at the start of an utterance: the first one leaves early.
        later: Its segments behind another sentence.
    """

    first: tuple[Piece, ...]
    later: tuple[Piece, ...]


@cache
def load_sentences() -> tuple[Sentence, ...]:
    """The committed table."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return tuple(
        Sentence(*(_parse(cell) for cell in line.split("\t"))) for line in lines if line[0] != "#"
    )


def _parse(cell: str) -> tuple[Piece, ...]:
    return tuple(Piece(*map(int, piece.split(":"))) for piece in cell.split(" "))


def _pieces(front_end: FrontEnd, text: str, before: str) -> str:
    stream = TextStream(front_end, SegmentPolicy())
    skipped = len(before)
    segments = [*stream.push(before + text), *stream.end()]
    return " ".join(
        f"{segment.end - segment.start}:{len(segment.phonemes)}"
        for segment in segments
        if segment.start >= skipped
    )


def main() -> None:
    """Write the table."""
    front_end = FrontEnd()
    lines = ["# segments (characters:phonemes) of a sentence that comes first, and of a later one"]
    for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        cells = (_pieces(front_end, text, ""), _pieces(front_end, text, "This comes first. "))
        lines.append("\t".join(cells))
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
