"""What a spoken line is worth: its words, its sound, its faults. Start reading at `judge_line`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from realtime.quality import sound
from realtime.quality.opinion import OpinionJudge
from realtime.quality.recogniser import Recogniser
from realtime.quality.results import LineResult
from realtime.quality.sound import Samples, Sound
from realtime.quality.speakers import Embedding, SpeakerJudge, read_audio
from realtime.quality.speaking import Spoken
from realtime.quality.words import Comparison, compare

FAILED = "failed"
SILENT = "silent"
RUNAWAY = "runaway"
EARLY_STOP = "early_stop"
LONG_SILENCE = "long_silence"
LATE_START = "late_start"
CLICK = "click"
FAULTS = {
    FAILED: "the service refused it or gave no audio",
    SILENT: "the speech is below -50 dBFS",
    RUNAWAY: "over 1.6 times the expected length and 0.3 s more, or cut by the service's guard",
    EARLY_STOP: "under 0.6 times the expected length, or its last 3 words were not heard",
    LONG_SILENCE: "a pause of over 1 s inside",
    LATE_START: "over 50 ms before the first sample of -45 dBFS",
    CLICK: "the wave jumps as speech does not",
}

SILENT_DBFS = -50.0
TOO_LONG_RATIO = 1.6
TOO_LONG_MARGIN_S = 0.3
TOO_SHORT_RATIO = 0.6
UNHEARD_END_WORDS = 3
LONG_PAUSE_S = 1.0
LATE_START_S = 0.050


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Who listens; each may be missing.

    Attributes:
        references: Embedding of each voice's reference recordings.
        loudness: The `pyloudnorm` package.
    """

    hear: Recogniser | None = None
    opinion: OpinionJudge | None = None
    speaker: SpeakerJudge | None = None
    references: Mapping[str, Embedding] = field(default_factory=dict[str, Embedding])
    loudness: object | None = None

    def similarities(
        self, voice: str, samples: Samples, rate_hz: int
    ) -> tuple[float | None, float | None]:
        """Cosine to the voice's own reference, and to the nearest other one; `None` without one."""
        if self.speaker is None or not self.references:
            return None, None
        embedding = self.speaker(samples, rate_hz)
        cosines = {name: float(embedding @ other) for name, other in self.references.items()}
        own = cosines.pop(voice, None)
        return own, max(cosines.values(), default=None)


def judge_line(
    spoken: Spoken,
    judges: Judges,
    *,
    expected_s: float | None,
    folder_name: str,
    speaker: str | None = None,
) -> LineResult:
    """Listen to one recording.

    Args:
        spoken: The line and its recording.
        judges: Who listens.
        expected_s: How long it should be from the first sound to the last; `None` where not known.
        folder_name: Of the recordings, as the report names it.
        speaker: Voice whose reference it is held against; `None` is the line's own voice.
    """
    job = spoken.job
    samples, rate_hz = read_audio(spoken.path)
    measured = sound.describe(samples, rate_hz)
    is_audible = bool(np.any(samples))
    heard = judges.hear(samples, rate_hz) if judges.hear is not None else None
    words = compare(job.text, heard or "")
    opinion = judges.opinion(samples, rate_hz) if judges.opinion and is_audible else None
    own = other = None
    if is_audible:
        own, other = judges.similarities(speaker or spoken.voice, samples, rate_hz)
    num_clicks = len(sound.clicks(samples, rate_hz))
    return LineResult(
        voice=spoken.voice,
        seed=job.seed,
        speed=job.speed,
        index=job.index,
        text=job.text,
        audio=f"{folder_name}/{spoken.path.name}" if len(samples) else "",
        reason=spoken.reason,
        heard=heard,
        num_words=words.num_words if heard is not None else 0,
        num_word_errors=words.num_word_errors if heard is not None else 0,
        num_chars=words.num_chars if heard is not None else 0,
        num_char_errors=words.num_char_errors if heard is not None else 0,
        audio_s=measured.audio_s,
        expected_s=expected_s,
        leading_silence_s=measured.leading_silence_s,
        spoken_s=measured.spoken_s,
        longest_pause_s=measured.longest_pause_s,
        level_dbfs=measured.level_dbfs,
        num_clicks=num_clicks,
        loudness_lufs=sound.loudness_lufs(samples, rate_hz, judges.loudness)
        if judges.loudness
        else None,
        dnsmos_overall=opinion and opinion.overall,
        dnsmos_signal=opinion and opinion.signal,
        dnsmos_background=opinion and opinion.background,
        similarity=own,
        similarity_to_other=other,
        real_time_factor=spoken.metrics and spoken.metrics.real_time_factor,
        faults=faults_of(
            measured,
            reason=spoken.reason,
            expected_s=expected_s,
            words=words if heard is not None else None,
            num_clicks=num_clicks,
        ),
    )


def faults_of(
    measured: Sound,
    *,
    reason: str,
    expected_s: float | None,
    words: Comparison | None,
    num_clicks: int,
) -> tuple[str, ...]:
    """Everything that is wrong with a recording, by the definitions of `FAULTS`."""
    if measured.audio_s <= 0 or reason not in ("end_of_speech", "guard"):
        return (FAILED,)
    if measured.level_dbfs < SILENT_DBFS:
        return (SILENT,)
    longest_s = TOO_LONG_RATIO * expected_s + TOO_LONG_MARGIN_S if expected_s else math.inf
    shortest_s = TOO_SHORT_RATIO * (expected_s or 0.0)
    tests = {
        RUNAWAY: measured.audio_s > longest_s or reason == "guard",
        EARLY_STOP: measured.spoken_s < shortest_s or _end_is_missing(words),
        LONG_SILENCE: measured.longest_pause_s > LONG_PAUSE_S,
        LATE_START: measured.leading_silence_s > LATE_START_S,
        CLICK: num_clicks > 0,
    }
    return tuple(name for name, is_so in tests.items() if is_so)


def _end_is_missing(words: Comparison | None) -> bool:
    return (
        words is not None
        and words.num_words > UNHEARD_END_WORDS
        and words.num_unheard_at_end >= UNHEARD_END_WORDS
    )
