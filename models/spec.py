"""What a voice is made of, in numbers: codec, language model and the files that hold their weights.

Frozen and torch-free: the gateway and the scheduler may read these. Written as `voice.json` beside
the weights.
"""

import functools
import itertools
from pathlib import Path

import msgspec


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class CodecSpec(_Struct, frozen=True, kw_only=True):
    """A residual vector-quantised codec in SNAC's token layout.

    Attributes:
        sample_rate: Hertz.
        samples_per_frame: Samples that one frame of codes decodes to.
        codebook_size: Codes in each codebook.
        levels: The residual level (0 is the coarsest) that each code of a frame belongs to, in
            token order.
        latent_size: Width of the codebook vectors.
        trunk_size: Width of the decoder's slow convolutions.
        trunk_hidden_size: Width inside them.
        trunk_dilations: One causal convolution block per entry, at four latents a frame.
        fine_size: Width of the decoder's fast convolutions.
        fine_hidden_size: Width inside them.
        fine_dilations: One causal convolution block per entry, at sixteen hops a frame.
        reference_hz: The pitch that the decoder's output 0 stands for; of speaker 0.
        speaker_hz: The same for the speakers after it; one entry each.
    """

    sample_rate: int = 24000
    samples_per_frame: int = 2048
    codebook_size: int = 512
    levels: tuple[int, ...] = (0, 1, 2, 2, 1, 2, 2)
    latent_size: int = 32
    trunk_size: int = 256
    trunk_hidden_size: int = 640
    trunk_dilations: tuple[int, ...] = (1, 2, 1, 2)
    fine_size: int = 160
    fine_hidden_size: int = 320
    fine_dilations: tuple[int, ...] = (1, 2, 4)
    reference_hz: float = 190.0
    speaker_hz: tuple[float, ...] = ()

    @property
    def num_speakers(self) -> int:
        """Speakers that the decoder knows."""
        return 1 + len(self.speaker_hz)

    @property
    def tokens_per_frame(self) -> int:
        """Codes in one frame."""
        return len(self.levels)

    @property
    def tokens_per_second(self) -> float:
        """Codes in one second of speech."""
        return self.tokens_per_frame * self.sample_rate / self.samples_per_frame

    @property
    def frame_s(self) -> float:
        """Length of one frame in seconds."""
        return self.samples_per_frame / self.sample_rate

    @property
    def latents_per_frame(self) -> int:
        """Codes of the finest level in one frame."""
        return self.levels.count(max(self.levels))


class ModelSpec(_Struct, frozen=True, kw_only=True):
    """A Llama-architecture language model over text symbols and speech codes.

    Attributes:
        num_layers: Decoder layers.
        hidden_size: Width of the residual stream.
        num_heads: Query heads.
        num_kv_heads: Key and value heads.
        head_dim: Width of a head.
        ffn_size: Inner width of the SwiGLU block.
        rope_theta: Base of the rotary embedding's wavelengths.
        norm_eps: Added to the mean square in RMSNorm.
        tie_embeddings: Whether the head is the embedding table.
        max_positions: Longest sequence the model was trained on.
        vocab_size: Rows of the embedding table.
        text_start_id: Opens the phonemes of a segment.
        text_end_id: Closes them; the next token is speech.
        end_of_speech_id: Ends a segment; legal at position 0 of a frame.
        audio_base_id: First code of frame position 0; position p starts `p * codebook_size` later.
        codebook_size: Codes per frame position.
        tokens_per_frame: Codes in one frame.
        num_speakers: Speakers that a prompt may name; 0 where it names none: the codes are relative
            to the speaker, so the codec alone may tell them apart.
        speeds: Speeds that a prompt may name, ascending; 1.0 is the default pace.
        control_base_id: Id of speaker 0; the other speakers follow, then the speeds.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    tie_embeddings: bool = True
    max_positions: int = 2048
    vocab_size: int
    text_start_id: int
    text_end_id: int
    end_of_speech_id: int
    audio_base_id: int
    codebook_size: int
    tokens_per_frame: int = 7
    num_speakers: int = 0
    speeds: tuple[float, ...] = ()
    control_base_id: int = 0

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError("num_heads must be a multiple of num_kv_heads")
        if self.head_dim % 2:
            raise ValueError("head_dim must be even: rotary pairs")
        if self.audio_base_id + self.tokens_per_frame * self.codebook_size > self.vocab_size:
            raise ValueError("vocab_size must cover every code block")
        if self.num_controls:
            if self.control_base_id < self.audio_base_id + self.tokens_per_frame * (
                self.codebook_size
            ):
                raise ValueError("control_base_id must lie behind the code blocks")
            if self.control_base_id + self.num_controls > self.vocab_size:
                raise ValueError("vocab_size must cover every control")
        if any(b <= a for a, b in itertools.pairwise(self.speeds)):
            raise ValueError("speeds must ascend")

    @property
    def num_controls(self) -> int:
        """Ids that name a speaker or a speed."""
        return self.num_speakers + len(self.speeds)

    def control_ids(self, speaker: int, speed: float) -> tuple[int, ...]:
        """What follows `text_start_id` in a prompt: the speaker, then the nearest trained speed.

        Empty where the model names neither.

        Raises:
            ValueError: It names speakers, and there is no such one.
        """
        if self.num_speakers and not 0 <= speaker < self.num_speakers:
            raise ValueError(f"the model has {self.num_speakers} speakers, not {speaker + 1}")
        ids = (self.control_base_id + speaker,) if self.num_speakers else ()
        if not self.speeds:
            return ids
        nearest = min(range(len(self.speeds)), key=lambda i: abs(self.speeds[i] - speed))
        return *ids, self.control_base_id + self.num_speakers + nearest

    def code_block(self, position_in_frame: int) -> tuple[int, int]:
        """First id and one past the last id of the codes legal at `position_in_frame` (0 to 6)."""
        first = self.audio_base_id + position_in_frame * self.codebook_size
        return first, first + self.codebook_size


class SamplingDefaults(_Struct, frozen=True, kw_only=True):
    """Sampling that the voice sounds best with."""

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


class SpeakerSpec(_Struct, frozen=True, kw_only=True):
    """One speaker of a voice; its place in the list is the index that model and codec know it by.

    Attributes:
        id: Name that callers ask for.
        aliases: Other names that callers may use, such as those that clients hard-code.
        description: One line for a listing.
        gender: `female` or `male`, as it sounds.
        language: BCP 47 tag.
        licence: Licence of what the speaker was learnt from.
        teacher: Who it was learnt from.
        reference_hz: The pitch that the codec's output 0 stands for.
        sample: A recording, as a path in the voice's folder; empty where there is none.
    """

    id: str
    aliases: tuple[str, ...] = ()
    description: str
    gender: str
    language: str
    licence: str
    teacher: str
    reference_hz: float = 190.0
    sample: str = ""


class VoiceSpec(_Struct, frozen=True, kw_only=True):
    """A voice that ships: `voice.json` in its folder.

    Attributes:
        name: Id of the voice.
        aliases: Other names that callers may use for it.
        language: BCP 47 tag.
        licence: Licence of the weights.
        description: One line for a listing.
        model: The language model.
        draft: A smaller model of the same tokens, for speculation; None where there is none.
        codec: The codec.
        symbols: Phoneme symbols in id order; id 0 is padding, the first symbol is id 1.
        speakers: Who it can speak as, in the order that model and codec count them; empty where
            it has one and `name` and `aliases` say all.
        sampling: Defaults of a request.
        min_s_per_phoneme: At speed 1.0, no segment is plausibly spoken faster; its end is not drawn
            before.
        max_s_per_phoneme: At speed 1.0, no segment is plausibly spoken slower, but for `extra_s`;
            it is ended there.
        extra_s: Added to the longest plausible speech: short words are slow and pauses count as
            well.
        quiet_codes: Codes of the first frame position that this voice speaks in pauses only, as
            `python -m bench.speech_faults` measures; without them an endless pause is not noticed.
        figures: Measured quality, name to value.
    """

    name: str
    aliases: tuple[str, ...] = ()
    language: str
    licence: str
    description: str
    model: ModelSpec
    draft: ModelSpec | None = None
    codec: CodecSpec
    symbols: str
    speakers: tuple[SpeakerSpec, ...] = ()
    sampling: SamplingDefaults = SamplingDefaults()
    min_s_per_phoneme: float = 0.03
    max_s_per_phoneme: float = 0.15
    extra_s: float = 1.0
    quiet_codes: tuple[int, ...] = ()
    figures: dict[str, float] = {}

    def __post_init__(self) -> None:
        if self.speakers and len(self.speakers) != self.codec.num_speakers:
            raise ValueError("speakers must be as many as the codec has")
        if self.model.num_speakers and len(self.speakers) != self.model.num_speakers:
            raise ValueError("speakers must be as many as the model has")


@functools.cache
def _decoder() -> msgspec.json.Decoder[VoiceSpec]:
    return msgspec.json.Decoder(VoiceSpec)


def read_voice_spec(folder: Path) -> VoiceSpec:
    """Read `voice.json` in `folder`.

    Raises:
        FileNotFoundError: There is no such file.
        msgspec.ValidationError: It does not describe a voice; the message names the field.
    """
    return _decoder().decode((folder / "voice.json").read_bytes())


def write_voice_spec(folder: Path, spec: VoiceSpec) -> None:
    """Write `voice.json` into `folder`, replacing it at once."""
    part = folder / "voice.json.part"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(spec), indent=2) + b"\n")
    part.replace(folder / "voice.json")
