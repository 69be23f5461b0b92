"""What the pipeline makes: one TOML file over the defaults of the shipped voice."""

import tomllib
from pathlib import Path

import msgspec

from models.spec import CodecSpec, ModelSpec, SamplingDefaults
from models.tokenizer import PhonemeTokenizer
from models.training.codec_sound import SoundStageConfig
from models.training.codec_tokens import TokenStageConfig
from models.training.lm_stage import LanguageStageConfig


class CorpusConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text.

    Attributes:
        sentences: Lines to read; about 2.7 s each.
        wordnet: Folder with WordNet 3.0's `data.*` files; empty leaves that source out.
        seed: Same seed, same lines.
        exclude: Files whose lines must not be in the corpus (the lines that a voice is judged on).
    """

    sentences: int = 32000
    wordnet: str = ""
    seed: int = 20261130
    exclude: tuple[str, ...] = ()


class SpeechConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The teacher's speech.

    Attributes:
        speed: Of speaking; 1.0 is the teacher's own pace.
        shard_lines: Lines in one shard.
        hours: Stop after this much speech.
        varied_ratio: Lines that are spoken at a random speed, from `slowest` to `fastest` times the
            default pace.
    """

    speed: float = 0.92
    shard_lines: int = 500
    hours: float = 16.0
    varied_ratio: float = 0.25
    slowest: float = 0.68
    fastest: float = 1.32


class SecondSpeakerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who else the voice can speak as.

    Attributes:
        voice: Name of a Kokoro voice; empty leaves the voice with one speaker.
        model: Folder with Kokoro's model; wanted where the speaker is to be learnt or improved.
        speed: Kokoro's, at the default pace.
        reference_hz: Its usual pitch.
        lines: Of the corpus that it reads; slow, so minutes of speech rather than hours.
    """

    voice: str = "am_michael"
    model: str = ""
    speed: float = 0.92
    reference_hz: float = 106.0
    lines: int = 400


class NetworkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dimensions of the language model; the rest of its spec follows from codec and tokenizer."""

    num_layers: int = 6
    hidden_size: int = 256
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    ffn_size: int = 704
    tie_embeddings: bool = False
    max_positions: int = 2048
    speeds: tuple[float, ...] = tuple(round(0.7 + 0.05 * i, 2) for i in range(13))

    def model_spec(self, codec: CodecSpec) -> ModelSpec:
        """The whole spec: symbols, three marks, a block of codes per frame position, controls."""
        symbols = PhonemeTokenizer().num_ids
        controls = symbols + 3 + codec.tokens_per_frame * codec.codebook_size
        speakers = codec.num_speakers if codec.num_speakers > 1 else 0
        return ModelSpec(
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            ffn_size=self.ffn_size,
            tie_embeddings=self.tie_embeddings,
            max_positions=self.max_positions,
            vocab_size=controls + speakers + len(self.speeds),
            text_start_id=symbols,
            text_end_id=symbols + 1,
            end_of_speech_id=symbols + 2,
            audio_base_id=symbols + 3,
            codebook_size=codec.codebook_size,
            tokens_per_frame=codec.tokens_per_frame,
            num_speakers=speakers,
            speeds=self.speeds,
            control_base_id=controls,
        )


class PipelineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what comes out.

    Attributes:
        workers: Processes that train together; one per core.
        draft: Dimensions of the draft model, which speculation checks against the language model.
        shares: How a budget for all stages is divided: codec tokens, language model, codec sound.
        draft_share: The same for the draft model, on top; 0 makes none.
    """

    corpus: CorpusConfig = CorpusConfig()
    speech: SpeechConfig = SpeechConfig()
    second: SecondSpeakerConfig = SecondSpeakerConfig()
    codec: CodecSpec = CodecSpec()
    tokens: TokenStageConfig = TokenStageConfig()
    sound: SoundStageConfig = SoundStageConfig()
    network: NetworkConfig = NetworkConfig()
    draft: NetworkConfig = NetworkConfig(
        num_layers=2, hidden_size=192, num_heads=3, num_kv_heads=1, ffn_size=512
    )
    language: LanguageStageConfig = LanguageStageConfig()
    sampling: SamplingDefaults = SamplingDefaults()
    workers: int = 2
    codec_shards: int = 30
    shares: tuple[float, float, float] = (0.25, 0.6, 0.15)
    draft_share: float = 0.0

    @property
    def voice_codec(self) -> CodecSpec:
        """The codec with all its speakers."""
        if not self.second.voice or self.codec.speaker_hz:
            return self.codec
        return msgspec.structs.replace(self.codec, speaker_hz=(self.second.reference_hz,))


def read_config(path: Path | None) -> PipelineConfig:
    """Read a TOML file over the defaults; None gives the defaults.

    Raises:
        msgspec.ValidationError: A field is unknown or has the wrong type; the message names it.
    """
    if path is None:
        return PipelineConfig()
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PipelineConfig)
