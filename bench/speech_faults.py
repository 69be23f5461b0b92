"""How far a voice's normal speech is from what the engine's guards call a fault.

    python -m bench.speech_faults --temperature 0 --temperature 0.7

Speaks sentences with the voice, each alone, without guards, and says how long its longest exact
repetition and its longest pause are. A voice names the first codes of a frame that are quiet
(`quiet_codes` in voice.json); `--measure` finds them: those whose frames are nearly always quieter
than -50 dBFS.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from models.spec import SamplingDefaults
from models.training.generate import generate
from models.weights import LoadedVoice, load_voice
from realtime.engine.guards import GuardLimits, SegmentGuard
from realtime.engine.voice import speech_layout
from realtime.text.phonemes import FrontEnd

_ROOT = Path(__file__).resolve().parents[1]
_BATCH = 25
_QUIET_DBFS = -50.0
_QUIET_SHARE = 0.8
_LEAST_SEEN = 10  # frames with a code before it is judged


@dataclass(frozen=True)
class Spoken:
    """One sentence: its text, codes `[F, 7]`, and the level of each frame in dBFS `[F]`."""

    text: str
    codes: Tensor
    levels: Tensor


def speak(voice: LoadedVoice, lines: list[str], temperature: float) -> Iterator[Spoken]:
    """Every line by itself, the shortest first."""
    front_end, spec = FrontEnd(), voice.spec
    ids = {line: voice.tokenizer.encode(front_end.read(line).phonemes) for line in lines}
    order = sorted(ids, key=lambda line: len(ids[line]))
    how = SamplingDefaults(temperature=temperature)
    frames_per_second = 1.0 / spec.codec.frame_s
    for first in range(0, len(order), _BATCH):
        batch = order[first : first + _BATCH]
        longest = [
            int((spec.max_s_per_phoneme * len(ids[line]) + spec.extra_s) * frames_per_second)
            for line in batch
        ]
        prompts = [ids[line] for line in batch]
        made = generate(voice.language_model, prompts, how, 1, longest)
        for line, one in zip(batch, made, strict=True):
            samples = voice.codec_decoder.decode(one.codes[None])[0]
            power = samples.view(len(one.codes), -1).square().mean(1)
            yield Spoken(line, one.codes, 10 * torch.log10(power + 1e-12))


def quiet_codes(speech: list[Spoken]) -> list[int]:
    """First codes of a frame that are nearly always quiet."""
    seen: Counter[int] = Counter()
    quiet: Counter[int] = Counter()
    for spoken in speech:
        for code, level in zip(spoken.codes[:, 0].tolist(), spoken.levels.tolist(), strict=True):
            seen[code] += 1
            quiet[code] += level < _QUIET_DBFS
    return sorted(c for c in seen if seen[c] >= _LEAST_SEEN and quiet[c] >= _QUIET_SHARE * seen[c])


def longest(voice: LoadedVoice, spoken: Spoken) -> tuple[int, int, int]:
    """A sentence's longest repetition and pause in frames, and the faults that guards would find
    in it.
    """
    layout, limits = speech_layout(voice.spec), GuardLimits()
    guard = SegmentGuard(limits, layout)
    repetition = pause = num_faults = 0
    for codes in spoken.codes.tolist():
        if guard.add(tuple(codes)) is not None:
            num_faults += 1
            guard = SegmentGuard(limits, layout)
        repetition = max(repetition, guard.longest_repetition)
        pause = max(pause, guard.num_silent)
    return repetition, pause, num_faults


def report(voice: LoadedVoice, speech: list[Spoken], temperature: float) -> None:
    """Print the figures of one temperature, and the sentences with a fault."""
    frame_s, limits = voice.spec.codec.frame_s, GuardLimits()
    rows = [(longest(voice, spoken), spoken) for spoken in speech]
    sound = [figures for figures, _ in rows if not figures[2]]
    repetition, pause = (max((f[i] for f in sound), default=0) * frame_s for i in (0, 1))
    total_s = sum(len(spoken.codes) for spoken in speech) * frame_s
    _say(f"temperature {temperature:g}: {len(rows)} sentences, {total_s:.0f} s of speech")
    _say(f"  longest repetition {repetition:.2f} s (limit {limits.repetition_s:g} s)")
    _say(f"  longest pause      {pause:.2f} s (limit {limits.silence_s:g} s)")
    _say(f"  sentences with a fault {len(rows) - len(sound)}")
    for figures, spoken in rows:
        if figures[2]:
            _say(f"    {figures[2]} in: {spoken.text}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voice", type=Path, default=_ROOT / "models/voices/default")
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--temperature", type=float, action="append")
    parser.add_argument("--measure", action="store_true", help="find the quiet codes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    voice = load_voice(arguments.voice, device="cpu", dtype=torch.float32)
    lines = [line for line in arguments.text.read_text(encoding="utf-8").splitlines() if line]
    for temperature in arguments.temperature or [voice.spec.sampling.temperature]:
        speech = list(speak(voice, lines, temperature))
        report(voice, speech, temperature)
        if arguments.measure:
            _say(f"  quiet codes {quiet_codes(speech)}")


if __name__ == "__main__":
    main()
