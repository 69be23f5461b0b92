"""A runner without a network: its "model" is a hash over what the KV cache holds, so wrong plans
change the tokens.
"""

from collections.abc import Callable

from realtime.engine.plan import Draw, SequenceSlice, SpeechLayout, StepPlan, StepResult

_MASK = (1 << 64) - 1


def mix(state: int, value: int) -> int:
    """One step of a 64-bit hash."""
    state = ((state ^ value) * 0x9E3779B97F4A7C15) & _MASK
    return state ^ (state >> 29)


class ScriptedRunner:
    """Implements `run(plan)`.

    Writes each slice's tokens into a cache addressed by its block table, then draws by hashing
    every token that the block table shows from position 0 on with the seed and the draw's index. A
    block that was lost, shared by mistake, computed late or overwritten therefore changes the
    outcome.

    Args:
        layout: Where codes lie in the vocabulary.
        block_size: Tokens per block.
        end_probability: Chance of END_OF_SPEECH where it may be drawn; only without a script.
        script: Overrides the draw: (request_id, draw) -> token id, or `None` to hash.
        reads_cache: False draws from seed and index alone (benchmarks: no work per context token).
    """

    def __init__(
        self,
        layout: SpeechLayout,
        block_size: int,
        *,
        end_probability: float = 0.1,
        script: Callable[[int, Draw], int | None] | None = None,
        reads_cache: bool = True,
    ) -> None:
        self._layout = layout
        self._block_size = block_size
        self._end_threshold = 0 if script else int(end_probability * 1000)
        self._script = script
        self._reads_cache = reads_cache
        self._cache: dict[tuple[int, int], int] = {}
        self.plans: list[StepPlan] = []

    def run(self, plan: StepPlan) -> StepResult:
        if self._reads_cache:
            self.plans.append(plan)
            written = [self._store(piece) for piece in plan.slices]
            assert sum(map(len, written)) == len(set().union(*written)), (
                "two rows share a cache slot"
            )
        drawn = [self._draw(piece, piece.draw) for piece in plan.slices if piece.draw is not None]
        return StepResult(tuple(drawn))

    def contents(self, block: int) -> tuple[int | None, ...]:
        """What the cache holds in a block; `None` where nothing was ever written."""
        return tuple(self._cache.get((block, offset)) for offset in range(self._block_size))

    def _address(self, piece: SequenceSlice, position: int) -> tuple[int, int]:
        return piece.block_ids[position // self._block_size], position % self._block_size

    def _store(self, piece: SequenceSlice) -> set[tuple[int, int]]:
        addresses = set()
        for offset, token_id in enumerate(piece.token_ids):
            address = self._address(piece, piece.first_position + offset)
            self._cache[address] = token_id
            addresses.add(address)
        return addresses

    def _draw(self, piece: SequenceSlice, draw: Draw) -> int:
        if self._script is not None:
            token_id = self._script(piece.request_id, draw)
            if token_id is not None:
                return token_id
        state = mix(draw.settings.seed, draw.index)
        if self._reads_cache:
            for position in range(piece.end_position):
                state = mix(state, self._cache[self._address(piece, position)])
        for code in draw.recent_codes:
            state = mix(state, code)
        if draw.may_end and state % 1000 < self._end_threshold:
            return self._layout.end_of_speech_id
        base = self._layout.audio_base_id + draw.position_in_frame * self._layout.codebook_size
        return base + (state >> 10) % self._layout.codebook_size
