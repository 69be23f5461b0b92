"""A model without a network: it speaks each segment for as long as the traffic says."""

from bench.simulator.traffic import Caller
from realtime.engine.plan import Draw, SpeechLayout, StepPlan, StepResult


class _Speaker:
    """One request's place in its script."""

    def __init__(self, caller: Caller) -> None:
        self._lengths = [segment.num_frames for segment in caller.segments]
        self._segment = 0
        self._frames = 0

    def wants_end(self) -> bool:
        """Whether the current segment is complete at this start of a frame; else counts one."""
        if self._frames >= self._lengths[self._segment]:
            return True
        self._frames += 1
        return False

    def next_segment(self) -> None:
        """The segment was ended."""
        self._segment += 1
        self._frames = 0


class ScriptedVoice:
    """Draws codes that look like noise, and the end of speech where the script says so."""

    def __init__(self, layout: SpeechLayout) -> None:
        self._layout = layout
        self._speakers: dict[int, _Speaker] = {}

    def add(self, request_id: int, caller: Caller) -> None:
        """A request's script."""
        self._speakers[request_id] = _Speaker(caller)

    def run(self, plan: StepPlan) -> StepResult:
        """One token for each draw."""
        return StepResult(
            tuple(
                self._draw(piece.request_id, piece.draw)
                for piece in plan.slices
                if piece.draw is not None
            )
        )

    def _draw(self, request_id: int, draw: Draw) -> int:
        layout = self._layout
        position = draw.position_in_frame
        if not position:
            speaker = self._speakers[request_id]
            if speaker.wants_end() and draw.may_end:
                speaker.next_segment()
                return layout.end_of_speech_id
        code = ((request_id + 1) * 2654435761 + draw.index * 40503) >> 4
        return layout.audio_base_id + position * layout.codebook_size + code % layout.codebook_size
