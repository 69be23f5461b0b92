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
    """

    speed: float = 0.92
    shard_lines: int = 500
    hours: float = 12.5


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

    def model_spec(self, codec: CodecSpec) -> ModelSpec:
        """The whole spec: text symbols, three marks, then a block of codes per frame position."""
        symbols = PhonemeTokenizer().num_ids
        return ModelSpec(
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            ffn_size=self.ffn_size,
            tie_embeddings=self.tie_embeddings,
            max_positions=self.max_positions,
            vocab_size=symbols + 3 + codec.tokens_per_frame * codec.codebook_size,
            text_start_id=symbols,
            text_end_id=symbols + 1,
            end_of_speech_id=symbols + 2,
            audio_base_id=symbols + 3,
            codebook_size=codec.codebook_size,
            tokens_per_frame=codec.tokens_per_frame,
        )


class PipelineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what comes out.

    Attributes:
        workers: Processes that train together; one per core.
        shares: How a budget for all stages is divided: codec tokens, language model, codec sound.
    """

    corpus: CorpusConfig = CorpusConfig()
    speech: SpeechConfig = SpeechConfig()
    codec: CodecSpec = CodecSpec()
    tokens: TokenStageConfig = TokenStageConfig()
    sound: SoundStageConfig = SoundStageConfig()
    network: NetworkConfig = NetworkConfig()
    language: LanguageStageConfig = LanguageStageConfig()
    sampling: SamplingDefaults = SamplingDefaults()
    workers: int = 2
    codec_shards: int = 30
    shares: tuple[float, float, float] = (0.25, 0.6, 0.15)


def read_config(path: Path | None) -> PipelineConfig:
    """Read a TOML file over the defaults; None gives the defaults.

    Raises:
        msgspec.ValidationError: A field is unknown or has the wrong type; the message names it.
    """
    if path is None:
        return PipelineConfig()
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PipelineConfig)
