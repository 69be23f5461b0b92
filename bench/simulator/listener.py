"""What became of one call, and a listener who plays from the first chunk on without a pause."""

import math
from dataclasses import dataclass

_TEXT_S = 0.25  # speech whose text came this late could not have been in time
_EPSILON_S = 1e-6


@dataclass
class Call:
    """One attempt of a caller.

    Attributes:
        caller: Number of the caller.
        attempt: Counts from 1.
        offered_at: When its first segment reached the engine.
        scheduled_at: When it got a slot; `None` if never.
        answered_at: When it was refused; `None` if it was not.
        retry_after_s: What it was told then.
        first_sound_at: When its first chunk was there.
        dry_at: When the listener has played all it has.
        gap_s: Silence in the middle of speech.
        text_gap_s: Silence because the caller's text came late.
        num_heard: Frames that came before an interruption.
        num_made: Frames whose tokens were made.
        cancelled_at: When the listener interrupted.
        is_over: Nothing further comes.
    """

    caller: int
    attempt: int
    offered_at: float
    scheduled_at: float | None = None
    answered_at: float | None = None
    retry_after_s: float | None = None
    first_sound_at: float | None = None
    dry_at: float = math.inf
    gap_s: float = 0.0
    text_gap_s: float = 0.0
    num_heard: int = 0
    num_made: int = 0
    cancelled_at: float | None = None
    is_over: bool = False

    def hear(self, num_frames: int, at: float, frame_s: float, text_at: float) -> None:
        """Frames arrived.

        Args:
            num_frames: How many.
            at: When.
            frame_s: How long each plays.
            text_at: When the text of the first of them reached the engine.
        """
        if self.cancelled_at is not None:
            return
        if self.first_sound_at is None:
            self.first_sound_at = self.dry_at = at
        late_s = at - self.dry_at
        if late_s > _EPSILON_S:
            if text_at > self.dry_at - _TEXT_S:
                self.text_gap_s += late_s
            else:
                self.gap_s += late_s
            self.dry_at = at
        self.dry_at += num_frames * frame_s
        self.num_heard += num_frames

    def interrupt(self, at: float, frame_s: float) -> None:
        """The listener has had enough: what it holds unplayed is lost."""
        unplayed = max(0, math.floor((self.dry_at - at) / frame_s))
        self.num_heard -= min(self.num_heard, unplayed)
        self.cancelled_at = at
