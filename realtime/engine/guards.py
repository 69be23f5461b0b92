"""Speech that went wrong, told from its codes alone: the same frames over and over, a pause
without end.

Pure. A verdict is a function of one stream's own frames, so it is the same in any company, after
preemption and for any timing of the codec. That is why a pause is told from its codes and not from
the level of its audio, which is known later, at a moment that depends on everybody else: the first
code of a frame is the coarsest and carries its level, and the voice says which ones are quiet.
"""

import enum
from collections import deque

import msgspec

from realtime.engine.plan import SamplingSettings, SpeechLayout

MAX_PERIOD_FRAMES = 8
MIN_PERIODS = 3
MENDED_FRAMES = 12  # about a second that is drawn anew with care
MENDED_SILENCE_FRAMES = 2  # that have to sound, unless speech ends
MENDING_TEMPERATURE = 0.5  # the greedy path is the one that led into the fault


class Fault(enum.StrEnum):
    """What is wrong with a segment."""

    REPETITION = "repetition"
    SILENCE = "silence"
    OVERLONG = "overlong"


class GuardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is not normal speech any more.

    Attributes:
        repetition_s: The same 1 to 8 frames, at least three times in succession, for this long.
        silence_s: A pause for this long.
    """

    repetition_s: float = 1.2
    silence_s: float = 1.5


class Finding(msgspec.Struct, frozen=True):
    """A fault, found in a segment's last frame.

    Attributes:
        num_frames: The last frames that are the fault; what is before them is good.
        barred_codes: For each position-in-frame the codes that would lead back into it.
        num_barred_frames: For how many frames they are not to be drawn.
    """

    fault: Fault
    num_frames: int
    barred_codes: tuple[tuple[int, ...], ...]
    num_barred_frames: int


class SegmentGuard:
    """Watches the frames of one segment; keeps eight of them and a few counts.

    Frames count as the same only where all their codes are: what is said twice never falls on the
    frames' grid twice, so equal words are far from equal frames.
    """

    def __init__(self, limits: GuardLimits, layout: SpeechLayout) -> None:
        self._layout = layout
        self._silence_frames = _frames(limits.silence_s, layout)
        least = _frames(limits.repetition_s, layout)
        self._longest = [max(least, MIN_PERIODS * period) for period in _PERIODS]
        self._recent: deque[tuple[int, ...]] = deque(maxlen=MAX_PERIOD_FRAMES)
        self._num_same = [0] * MAX_PERIOD_FRAMES  # frames equal to the one a period before
        self._num_silent = 0

    @property
    def longest_repetition(self) -> int:
        """Frames, up to the last one, that repeat with some period; 0 where fewer than three times.

        A repeated pause is a silence and no repetition.
        """
        return max(
            (
                same + period
                for period, same in zip(_PERIODS, self._num_same, strict=True)
                if same + period >= MIN_PERIODS * period and not self._is_pause_of(period)
            ),
            default=0,
        )

    @property
    def num_silent(self) -> int:
        """Quiet frames up to the last one."""
        return self._num_silent

    def add(self, codes: tuple[int, ...]) -> Finding | None:
        """Take the segment's next frame; what is found wrong with it."""
        self._num_silent = self._num_silent + 1 if codes[0] in self._layout.quiet_codes else 0
        recent, num_same = self._recent, self._num_same
        for i in range(len(recent)):
            num_same[i] = num_same[i] + 1 if recent[-1 - i] == codes else 0
        recent.append(codes)
        if self._num_silent >= self._silence_frames:
            return Finding(
                Fault.SILENCE, self._num_silent, _quiet_codes(self._layout), MENDED_SILENCE_FRAMES
            )
        for period, same, longest in zip(_PERIODS, num_same, self._longest, strict=True):
            if same + period >= longest and not self._is_pause_of(period):
                loop = list(recent)[-period:]
                barred = tuple(tuple(sorted(set(column))) for column in zip(*loop, strict=True))
                return Finding(Fault.REPETITION, same, barred, MENDED_FRAMES)
        return None

    def _is_pause_of(self, num_frames: int) -> bool:
        return self._num_silent >= num_frames


class Mending(msgspec.Struct, frozen=True):
    """How the frames behind a mended fault are drawn: never greedily, and not back into it.

    Attributes:
        settings: The request's sampling, warm enough to leave the path that it was on.
        barred_codes: As in `Finding`.
        barred_until: Frame from which on everything may be drawn again.
        until: Frame from which on the request's own sampling counts again.
    """

    settings: SamplingSettings
    barred_codes: tuple[tuple[int, ...], ...]
    barred_until: int
    until: int

    @classmethod
    def of(cls, finding: Finding, settings: SamplingSettings, frame: int) -> "Mending":
        """Mend a fault that was found before frame `frame` of the request."""
        temperature = max(MENDING_TEMPERATURE, settings.temperature)
        return cls(
            msgspec.structs.replace(settings, temperature=temperature),
            finding.barred_codes,
            frame + finding.num_barred_frames,
            frame + MENDED_FRAMES,
        )


_PERIODS = range(1, MAX_PERIOD_FRAMES + 1)


def _frames(seconds: float, layout: SpeechLayout) -> int:
    return max(1, round(seconds * layout.frames_per_second))


def _quiet_codes(layout: SpeechLayout) -> tuple[tuple[int, ...], ...]:
    """The codes of a pause by position-in-frame."""
    return tuple(sorted(layout.quiet_codes)), *((),) * (layout.tokens_per_frame - 1)
