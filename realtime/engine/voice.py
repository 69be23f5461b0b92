"""The loaded voice as the rest of the engine sees it.

Names, prompts, sampling defaults, and where speech lies in the vocabulary.
"""

from pathlib import Path

from models.spec import VoiceSpec
from models.tokenizer import PhonemeTokenizer, UnknownSymbolError
from realtime.config import VoiceConfig
from realtime.engine.plan import SamplingSettings, SpeechLayout
from realtime.errors import UnspeakableTextError
from realtime.messages import SamplingParams, VoiceFacts

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
    def num_speakers(self) -> int:
        """Speakers that requests may ask for."""
        return max(1, len(self._spec.speakers))

    def prompt(self, phonemes: str, speaker: int = 0, speed: float = 1.0) -> tuple[int, ...]:
        """[TEXT_START] [speaker] [speed] phonemes [TEXT_END]; no controls where the voice has none.

        Raises:
            UnspeakableTextError: The voice does not know a symbol, or there is none.
        """
        if not phonemes:
            raise UnspeakableTextError("a segment without phonemes")
        try:
            ids = self._tokenizer.encode(phonemes)
        except UnknownSymbolError as error:
            raise UnspeakableTextError(str(error)) from error
        model = self._spec.model
        controls = model.control_ids(speaker, speed)
        return model.text_start_id, *controls, *ids, model.text_end_id

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


def voice_facts(spec: VoiceSpec, folder: Path) -> tuple[VoiceFacts, ...]:
    """Whom the voice in `folder` can speak as, in the order that its networks count them.

    The folder's own name and aliases stand for the first speaker.
    """
    if not spec.speakers:
        return (
            VoiceFacts(
                id=spec.name,
                aliases=spec.aliases,
                language=spec.language,
                licence=spec.licence,
                description=spec.description,
            ),
        )
    ids = {speaker.id for speaker in spec.speakers}
    folder_names = tuple(name for name in (spec.name, *spec.aliases) if name not in ids)
    return tuple(
        VoiceFacts(
            id=speaker.id,
            aliases=speaker.aliases if index else (*folder_names, *speaker.aliases),
            language=speaker.language,
            licence=speaker.licence,
            description=speaker.description,
            gender=speaker.gender,
            sample=str((folder / speaker.sample).resolve()) if speaker.sample else "",
        )
        for index, speaker in enumerate(spec.speakers)
    )


def speed_range(spec: VoiceSpec) -> tuple[float, float] | None:
    """Slowest and fastest speed that the voice was trained at; `None` without speed control."""
    speeds = spec.model.speeds
    return (speeds[0], speeds[-1]) if speeds else None


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
