"""Machines as formulas: what a step and a codec call take, and the voice that they speak.

The numbers are stated, not measured here: what a formula leaves out, the simulation leaves out.
"""

from random import Random

import msgspec

from realtime.engine.plan import SpeechLayout
from realtime.engine.step_time import StepCosts


class Noise(msgspec.Struct, frozen=True):
    """How real steps differ from the formula.

    Attributes:
        spread: Standard deviation of the logarithm of a step's time.
        pause_ratio: Share of steps behind which the machine stands still.
        pause_s: For how long.
    """

    spread: float = 0.0
    pause_ratio: float = 0.0
    pause_s: float = 0.0

    def apply(self, seconds: float, random: Random) -> float:
        """A real step."""
        if self.spread:
            seconds *= random.lognormvariate(0.0, self.spread)
        if self.pause_ratio and random.random() < self.pause_ratio:
            seconds += self.pause_s
        return seconds


NOISY = Noise(spread=0.1, pause_ratio=0.01, pause_s=0.02)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        layout: The voice's facts.
        step: Seconds of a step.
        codec: Seconds of a codec call by frames.
        is_codec_apart: The codec has a processor of its own; else a call delays the next step.
        lookahead_frames: Frames that must be there before one can be decoded.
        host: Seconds of the host's own work a step, on top of `step`; admission learns of it as it
            learns of everything that the formula does not say.
        chars_per_token: Of a prompt; 0 where a token is a phoneme.
        max_streams: Slots.
        max_step_tokens: Tokens of a step.
        num_blocks: Of the KV cache.
        noise: See there.
    """

    name: str
    layout: SpeechLayout
    step: StepCosts
    codec: StepCosts
    is_codec_apart: bool
    lookahead_frames: int = 0
    host: StepCosts = StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0)
    chars_per_token: float = 0.0
    max_streams: int
    max_step_tokens: int
    num_blocks: int
    block_size: int = 32
    noise: Noise = Noise()

    def prompt_tokens(self, num_chars: int, num_phonemes: int) -> int:
        """Tokens of a segment's prompt, its marks included."""
        if self.chars_per_token:
            return 6 + round(num_chars / self.chars_per_token)
        return 2 + num_phonemes


def _layout(*, codebook_size: int, audio_base_id: int, end_id: int, longest: int) -> SpeechLayout:
    return SpeechLayout(
        tokens_per_frame=7,
        codebook_size=codebook_size,
        audio_base_id=audio_base_id,
        end_of_speech_id=end_id,
        max_positions=longest,
        sample_rate_hz=24_000,
        samples_per_frame=2048,
        min_s_per_phoneme=0.03,
        max_s_per_phoneme=0.15,
        extra_s=1.0,
    )


# One H200, Orpheus-3B in bf16. Weights 6.6 GB at 4.3 TB/s: 1.5 ms. Keys and values 114,688 bytes a
# token: 16 us for 600 tokens of context. Arithmetic 7 us a token (5.5 TFLOP at 790 TFLOP/s), for a
# prompt's tokens as well. The codec is SNAC's decoder: 0.8 GFLOP and some 40 MB of activations a
# frame, 20 us where both are used badly, and 0.4 ms of launches a call, on the same device.
H200 = Machine(
    name="h200",
    layout=_layout(codebook_size=4096, audio_base_id=128_266, end_id=128_258, longest=8192),
    step=StepCosts(step_s=1.5e-3, row_s=7e-6, prefill_s=7e-6, context_s=16e-6 / 600),
    codec=StepCosts(step_s=0.4e-3, row_s=20e-6, prefill_s=0.0),
    is_codec_apart=False,
    chars_per_token=4.0,
    max_streams=1024,
    max_step_tokens=2048,
    num_blocks=32_768,  # 120 GB
)

# The same with SNAC decoded exactly: 4,754 samples of look-ahead, so three frames behind the first.
H200_SNAC = msgspec.structs.replace(H200, name="h200-snac", lookahead_frames=3)

# The same with what schedule, commit and emit take in Python on one Zen 3 core (bench.host_cost),
# not overlapped with the step.
H200_HOST = msgspec.structs.replace(
    H200, name="h200-host", host=StepCosts(step_s=20e-6, row_s=17e-6, prefill_s=0.0)
)

# Default voice, one Zen 3 core for steps (6.9, 11.7, 20.6 ms at 8, 16, 32 rows), one for the codec
# (real-time factor 0.069, 0.019, 0.016 at 1, 8, 16 streams: 5.9, 13, 21.8 ms a call). Of a row's
# 0.57 ms, 0.09 ms are its 300 tokens of context, 6 KB each at 20 GB/s.
CPU = Machine(
    name="cpu",
    layout=_layout(codebook_size=512, audio_base_id=200, end_id=199, longest=2048),
    step=StepCosts(step_s=2.3e-3, row_s=0.48e-3, prefill_s=0.3e-3, context_s=0.3e-6),
    codec=StepCosts(step_s=4.8e-3, row_s=1.06e-3, prefill_s=0.0),
    is_codec_apart=True,
    max_streams=32,
    max_step_tokens=64,
    num_blocks=32 * 64,
)

# The same with steps that vary, and a pause of 20 ms behind every hundredth.
CPU_NOISY = msgspec.structs.replace(CPU, name="cpu-noisy", noise=NOISY)
H200_NOISY = msgspec.structs.replace(H200, name="h200-noisy", noise=NOISY)

MACHINES = {
    machine.name: machine for machine in (H200, H200_SNAC, H200_HOST, H200_NOISY, CPU, CPU_NOISY)
}
