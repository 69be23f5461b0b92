"""The loaded voice as the rest of the engine sees it.

Names, prompts, sampling defaults, and where speech lies in the vocabulary.
"""

from pathlib import Path

from models.spec import VoiceSpec
from models.tokenizer import PhonemeTokenizer, UnknownSymbolError
from realtime.config import VoiceConfig
from realtime.engine.plan import SamplingSettings, SpeechLayout
from realtime.errors import UnspeakableTextError
from realtime.messages import SamplingParams

_SHIPPED_VOICES = Path(__file__).resolve().parents[2] / "models" / "voices"


_COLDEST = (
    1e-3  # below it a logit divided by the temperature may leave float32: greedy all the same
)


class SpokenVoice:
    """What the core asks of a voice."""

    def __init__(self, spec: VoiceSpec, tokenizer: PhonemeTokenizer) -> None:
        self._spec = spec
        self._tokenizer = tokenizer

    @property
    def names(self) -> tuple[str, ...]:
        """The voice's name and its aliases."""
        return self._spec.name, *self._spec.aliases

    def prompt(self, phonemes: str) -> tuple[int, ...]:
        """[TEXT_START] phonemes [TEXT_END].

        Raises:
            UnspeakableTextError: The voice does not know a symbol, or there is none.
        """
        if not phonemes:
            raise UnspeakableTextError("a segment without phonemes")
        try:
            ids = self._tokenizer.encode(phonemes)
        except UnknownSymbolError as error:
            raise UnspeakableTextError(str(error)) from error
        return self._spec.model.text_start_id, *ids, self._spec.model.text_end_id

    def settings(self, params: SamplingParams) -> SamplingSettings:
        """The caller's wishes over the voice's defaults."""
        wished = {
            name: getattr(params, name)
            for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        }
        defaults = self._spec.sampling
        chosen = {
            name: getattr(defaults, name) if value is None else value
            for name, value in wished.items()
        }
        if chosen["temperature"] < _COLDEST:
            chosen["temperature"] = 0.0
        return SamplingSettings(seed=params.seed, **chosen)


def speech_layout(spec: VoiceSpec) -> SpeechLayout:
    """What the scheduler needs of a voice."""
    return SpeechLayout(
        tokens_per_frame=spec.model.tokens_per_frame,
        codebook_size=spec.model.codebook_size,
        audio_base_id=spec.model.audio_base_id,
        end_of_speech_id=spec.model.end_of_speech_id,
        max_positions=spec.model.max_positions,
        sample_rate_hz=spec.codec.sample_rate,
        samples_per_frame=spec.codec.samples_per_frame,
        min_s_per_phoneme=spec.min_s_per_phoneme,
        max_s_per_phoneme=spec.max_s_per_phoneme,
        extra_s=spec.extra_s,
        quiet_codes=frozenset(spec.quiet_codes),
    )


def voice_folder(config: VoiceConfig) -> Path:
    """Folder of the configured default voice."""
    base = Path(config.directory) if config.directory else _SHIPPED_VOICES
    return base / config.default
