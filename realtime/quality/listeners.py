"""Who listens: the judges that are wanted and installed, and what is told of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from realtime.quality import teacher as teachers
from realtime.quality.judging import Judges
from realtime.quality.opinion import OpinionJudge, load_opinion_judge
from realtime.quality.packages import MissingPackageError, load
from realtime.quality.recogniser import Recogniser, load_recogniser
from realtime.quality.sound import describe
from realtime.quality.speakers import SpeakerJudge, embed_all, load_speaker_judge, read_references
from realtime.quality.teacher import Teacher, load_teacher

NUM_REFERENCE_LINES = 10

WORDS, OPINION, SPEAKER, LOUDNESS, LENGTH = "words", "opinion", "speaker", "loudness", "length"
KINDS = (WORDS, OPINION, SPEAKER, LOUDNESS, LENGTH)
"""What may be left out."""

_NEEDED_BY = {
    OPINION: ("dnsmos_overall", "dnsmos_signal", "dnsmos_background"),
    SPEAKER: ("similarity", "similarity_to_other", "similarity_lead", "long_similarity_drift"),
    LOUDNESS: ("loudness_lufs", "loudness_offset_lu"),
    LENGTH: ("length_ratio",),
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Everyone who listens; what is `None` is not measured.

    Attributes:
        recogniser_name: As it was asked for.
        reference_folder: Of recordings of the voices; `None` has the teacher speak for the
            service's default voice.
        teacher: Says how long a text takes.
        notes: Why somebody is missing.
    """

    recogniser_name: str | None = None
    hear: Recogniser | None = None
    opinion: OpinionJudge | None = None
    speaker: SpeakerJudge | None = None
    loudness: object | None = None
    reference_folder: Path | None = None
    teacher: Teacher | None = None
    notes: tuple[str, ...] = ()

    @property
    def reference_name(self) -> str:
        """Where the reference recordings come from."""
        if self.speaker is None:
            return "none"
        if self.reference_folder is not None:
            return str(self.reference_folder)
        return teachers.NAME if self.teacher is not None else "none"

    def judges(
        self, voices: Sequence[str], default_voice: str, texts: Sequence[str]
    ) -> tuple[Judges, tuple[str, ...]]:
        """The judges with their reference recordings, and notes on voices that have none.

        Raises:
            BadReferenceError: A recording cannot be read.
        """
        recordings = {}
        if self.speaker is not None:
            if self.reference_folder is not None:
                recordings = read_references(self.reference_folder, voices)
            elif self.teacher is not None:
                lines = list(dict.fromkeys(texts))[:NUM_REFERENCE_LINES]
                recordings[default_voice] = [
                    (self.teacher(line), teachers.RATE_HZ) for line in lines
                ]
        references = embed_all(recordings, self.speaker) if self.speaker is not None else {}
        judges = Judges(
            hear=self.hear,
            opinion=self.opinion,
            speaker=self.speaker,
            references=references,
            loudness=self.loudness,
        )
        missing = [voice for voice in voices if voice not in references]
        if self.speaker is None or not missing:
            return judges, ()
        return judges, (
            f"no reference recording of {', '.join(missing)}: similarity to it is not measured",
        )

    def expected_lengths(self, texts: Sequence[str]) -> dict[str, float]:
        """Seconds from the teacher's first sound of each text to its last; empty without one."""
        if self.teacher is None:
            return {}
        return {text: describe(self.teacher(text), teachers.RATE_HZ).spoken_s for text in {*texts}}


def load_listeners(
    *,
    recogniser: str,
    models: Path | None = None,
    threads: int = 1,
    reference_folder: Path | None = None,
    without: Sequence[str] = (),
    required: Sequence[str] = (),
) -> Listeners:
    """Load everyone who is wanted.

    Args:
        recogniser: Model folder or name.
        models: Folder of models.
        threads: Of the recogniser.
        reference_folder: Of recordings of the voices.
        without: Kinds of measurement to leave out, from `KINDS`.
        required: Figures that must be measured; their judges must be installed.

    Raises:
        MissingPackageError: The recogniser, or a judge of a required figure, is not installed.
        RecogniserNotFoundError: There is no such model.
    """
    notes: list[str] = []

    def optional(kind: str, make: Callable[[], T]) -> T | None:
        if kind in without:
            return None
        try:
            return make()
        except MissingPackageError as error:
            if {*_NEEDED_BY[kind]} & {*required}:
                raise
            notes.append(f"not measured: {error}")
            return None

    hear = None if WORDS in without else load_recogniser(recogniser, models, threads=threads)
    return Listeners(
        recogniser_name=None if hear is None else recogniser,
        hear=hear,
        opinion=optional(OPINION, load_opinion_judge),
        speaker=optional(SPEAKER, load_speaker_judge),
        loudness=optional(LOUDNESS, lambda: load("pyloudnorm", "loudness")),
        teacher=optional(LENGTH, load_teacher),
        reference_folder=reference_folder,
        notes=tuple(notes),
    )
