"""How well a voice speaks: word error, and utterances of the wrong length."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from models.spec import SamplingDefaults
from models.training.generate import generate
from models.training.speech_data import read_shard
from models.weights import LoadedVoice
from realtime.quality.recogniser import Recogniser
from realtime.quality.words import compare


@dataclass(frozen=True)
class Line:
    """A line to speak: its words, its phonemes, and how long the teacher takes over it."""

    text: str
    phonemes: str
    teacher_s: float


@dataclass(frozen=True)
class Score:
    """Totals over lines.

    Attributes:
        word_error_ratio: Errors over words.
        short_word_error_ratio: The same over lines of at most 14 words.
        runaways: Lines that were longer than 1.6 times the teacher's.
        early_stops: Lines that were shorter than 0.6 times the teacher's.
        misses: What was heard where it differs, as (errors, text, heard).
    """

    word_error_ratio: float
    short_word_error_ratio: float
    runaways: int
    early_stops: int
    misses: list[tuple[int, str, str]]


def speak(
    voice: LoadedVoice, lines: list[Line], how: SamplingDefaults, seed: int
) -> list[np.ndarray]:
    """Samples of each line, float32 at the codec's rate; batches of lines of similar length."""
    order = sorted(range(len(lines)), key=lambda i: lines[i].teacher_s)
    spoken: dict[int, np.ndarray] = {}
    for start in range(0, len(order), 16):
        part = order[start : start + 16]
        prompts = [voice.tokenizer.encode(lines[i].phonemes) for i in part]
        limits = [int(lines[i].teacher_s * 1.8 / voice.spec.codec.frame_s) + 6 for i in part]
        for i, made in zip(
            part, generate(voice.language_model, prompts, how, seed, limits), strict=True
        ):
            codes = made.codes[None]
            with torch.no_grad():
                empty = codes.shape[1] == 0
                spoken[i] = (
                    np.zeros(2400, np.float32)
                    if empty
                    else voice.codec_decoder.decode(codes)[0].numpy()
                )
    return [spoken[i] for i in range(len(lines))]


def score(
    voice: LoadedVoice, lines: list[Line], how: SamplingDefaults, seed: int, hear: Recogniser
) -> Score:
    """Speak and judge `lines`."""
    errors = words = short_errors = short_words = runaways = early = 0
    misses = []
    for line, samples in zip(lines, speak(voice, lines, how, seed), strict=True):
        length_s = len(samples) / voice.spec.codec.sample_rate
        runaways += length_s > 1.6 * line.teacher_s
        early += length_s < 0.6 * line.teacher_s
        heard = hear(samples, voice.spec.codec.sample_rate)
        compared = compare(line.text, heard)
        wrong, count = compared.num_word_errors, compared.num_words
        errors, words = errors + wrong, words + count
        if len(line.text.split()) <= 14:
            short_errors, short_words = short_errors + wrong, short_words + count
        if wrong:
            misses.append((wrong, line.text, heard))
    return Score(errors / words, short_errors / max(1, short_words), runaways, early, misses)


def teacher_lines(shard: Path, count: int) -> list[Line]:
    """The first `count` utterances of a shard of teacher speech."""
    lines = []
    for utterance in read_shard(shard):
        if len(lines) == count:
            break
        lines.append(Line(utterance.text, utterance.phonemes, len(utterance.f0) / 80))
    return lines
