"""The stages of the pipeline over one run directory; each skips what is already there.

A stage that trains runs once per worker process; the workers of a stage average their weights
through files.
"""

import json
import math
import random
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file

from models.spec import CodecSpec
from models.tokenizer import PhonemeTokenizer
from models.training import codec_sound, codec_tokens, corpus, export
from models.training.config import PipelineConfig, SpeechConfig
from models.training.exchange import Worker
from models.training.features import heard_ends, hop_features, load_corpus
from models.training.growth import grow
from models.training.kokoro import Kokoro
from models.training.lm_stage import Control, LanguageStage
from models.training.parallel import Pair, PairReader
from models.training.sequences import Spoken, load_spoken, save_spoken
from models.training.speech_data import read_shard, shards, write_shard
from models.training.teacher import FRAME_SAMPLES, Teacher, Utterance, with_durations
from models.training.wall import wall_s
from models.weights import LANGUAGE_MODEL_FILE

_TEACHER_RATE = 80.0  # frames a second
_HELD_UTTERANCES = 64
_SECOND_SHARD = 50  # lines


class Run:
    """Paths of one run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus.txt"
        self.speech = folder / "speech"
        self.codec = folder / "codec"
        self.tokens = folder / "tokens"
        self.language = folder / "language"
        self.draft = folder / "draft"
        self.second = folder / "second"
        for path in (
            self.speech, self.codec, self.tokens, self.language, self.draft, self.second,
        ):  # fmt: skip
            path.mkdir(parents=True, exist_ok=True)

    @property
    def frozen(self) -> Path:
        """Stage A's result, rounded to what is shipped: fixes what the tokens mean."""
        return self.codec / "frozen.pt"

    @property
    def sound(self) -> Path:
        """Stage B's decoder."""
        return self.codec / "sound.pt"


def make_corpus(run: Run, config: PipelineConfig) -> None:
    """Write the lines to read."""
    if run.corpus.exists():
        return
    excluded = {
        line for path in config.corpus.exclude for line in Path(path).read_text().splitlines()
    }
    folder = Path(config.corpus.wordnet) if config.corpus.wordnet else None
    lines = corpus.build(folder, config.corpus.sentences, config.corpus.seed)
    run.corpus.write_text("\n".join(line for line in lines if line not in excluded) + "\n")


def make_speech(run: Run, config: PipelineConfig, worker: int) -> None:
    """Have the teacher read every `workers`-th shard of the corpus."""
    teacher = Teacher(with_durations(run.folder), config.speech.speed)
    lines = run.corpus.read_text().splitlines()
    size, spoken_s = config.speech.shard_lines, 0.0
    for shard in range(worker, -(-len(lines) // size), config.workers):
        if spoken_s > config.speech.hours * 3600 / config.workers:
            return
        path = run.speech / f"speech_{shard:04d}.npz"
        if not path.exists():
            utterances = []
            for i, line in enumerate(lines[shard * size : (shard + 1) * size]):
                seed = shard * size + i
                speed = _speed(config.speech, seed)
                for phonemes in filter(None, teacher.phonemize(line)):
                    spoken = teacher.speak(line, phonemes, seed, with_samples=False, speed=speed)
                    if spoken is not None:
                        utterances.append(spoken)
            write_shard(path, utterances)
        spoken_s += sum(len(u.f0) for u in read_shard(path)) / _TEACHER_RATE


def _speed(config: SpeechConfig, seed: int) -> float:
    """How fast a line is spoken, relative to the default pace."""
    rng = np.random.default_rng(seed)
    if rng.random() >= config.varied_ratio:
        return 1.0
    return float(rng.uniform(config.slowest, config.fastest))


def train_codec_tokens(run: Run, config: PipelineConfig, index: int, budget_s: float) -> None:
    """Stage A; several workers start from what one makes in a quarter of the budget."""
    final = run.codec / f"tokens_{index}.pt"
    if final.exists() or run.frozen.exists():
        return
    data, _ = load_corpus(
        shards(run.speech)[: config.codec_shards], config.voice_codec, with_samples=False
    )
    start_path, start = run.codec / "start.pt", None
    if config.workers > 1:
        if index == 0 and not start_path.exists():
            alone = Worker(budget_s / 4, run.codec / "start.jsonl")
            made = codec_tokens.train(data, config.voice_codec, config.tokens, alone)
            _save(made.state_dict(), start_path)
        _wait_for(start_path, budget_s)
        start, budget_s = torch.load(start_path, weights_only=True), budget_s * 3 / 4
    worker = _worker(run.codec, "tokens", index, config, budget_s)
    stage = codec_tokens.train(data, config.voice_codec, config.tokens, worker, start)
    _save(stage.state_dict(), final)


def _worker(
    folder: Path, stage: str, index: int, config: PipelineConfig, budget_s: float
) -> Worker:
    """A process of a codec stage, with its log and its company."""
    exchange = folder / f"{stage}_exchange" if config.workers > 1 else None
    log = folder / f"{stage}_{index}.jsonl"
    return Worker(budget_s, log, exchange, index, config.workers)


def freeze_codec(run: Run, config: PipelineConfig) -> None:
    """Average the workers' results and round them to bfloat16 values."""
    if run.frozen.exists():
        return
    parts = [
        torch.load(run.codec / f"tokens_{w}.pt", weights_only=True) for w in range(config.workers)
    ]
    stage = codec_tokens.TokenStage(config.voice_codec)
    stage.load_state_dict({name: sum(p[name] for p in parts) / len(parts) for name in parts[0]})
    export.round_to_bfloat16(stage)
    _save(stage.state_dict(), run.frozen)


def adopt_codec(run: Run, voice: Path) -> None:
    """Take the codec of a voice that shipped, in place of training one."""
    stage, decoder = export.adopt_codec(voice)
    _save(stage.state_dict(), run.frozen)
    _save(decoder.state_dict(), run.sound)


def load_frozen(run: Run, codec: CodecSpec) -> codec_tokens.TokenStage:
    """The frozen codec of a run."""
    stage = codec_tokens.TokenStage(codec)
    stage.load_state_dict(grow(torch.load(run.frozen, weights_only=True), stage))
    return stage.eval().requires_grad_(False)


def _codes(stage: codec_tokens.TokenStage, utterance: Utterance) -> np.ndarray:
    """What the frozen codec makes of an utterance, int16 `[F, 7]`."""
    f = hop_features(utterance, stage.codebooks.spec)
    envelopes = [torch.from_numpy(a)[None].float() for a in (f.harmonic, f.noise, f.f0, f.voiced)]
    phones = torch.from_numpy(f.phones)[None]
    return stage.encoder.encode(stage.codebooks, *envelopes, phones)[0].numpy().astype(np.int16)


def tokenize(run: Run, config: PipelineConfig, worker: int) -> None:
    """Encode every `workers`-th shard of speech."""
    stage, tokenizer = load_frozen(run, config.voice_codec), PhonemeTokenizer()
    for path in shards(run.speech)[worker :: config.workers]:
        target = run.tokens / path.name.replace("speech", "tokens")
        if target.exists():
            continue
        spoken = []
        for utterance in read_shard(path):
            codes = _codes(stage, utterance)
            ids = np.array(tokenizer.encode(utterance.phonemes), np.int16)
            ends = (
                heard_ends(utterance) * FRAME_SAMPLES / config.voice_codec.samples_per_frame
            ).astype(np.float32)
            spoken.append(Spoken(ids, utterance.phonemes, ends, codes, speed=utterance.speed))
        save_spoken(target, spoken)


def gather_tokens(run: Run) -> None:
    """Join the shards: the first utterances are held out in `held.npz`."""
    paths = sorted(run.tokens.glob("tokens_*.npz"))
    first = load_spoken(paths[0])
    count = min(_HELD_UTTERANCES, len(first) // 4)
    held = first[:count]
    unseen = {s.symbols for s in held}
    save_spoken(run.language / "held.npz", held)
    save_spoken(
        run.language / "train.npz",
        [s for p in paths for s in load_spoken(p) if s.symbols not in unseen],
    )


def plan_language(folder: Path, config: PipelineConfig, budget_s: float) -> None:
    """Set when the learning rate falls and when training stops, counted from now."""
    now = wall_s()
    control = Control(
        decay_at=now + budget_s * config.language.stable_ratio, stop_at=now + budget_s
    )
    (folder / "control.json").write_bytes(msgspec.json.encode(control))


def train_language(run: Run, config: PipelineConfig, worker: int, start: Path | None) -> None:
    """Train as planned, from the run's checkpoint, else from a voice (`start`), else anew."""
    stage = LanguageStage(
        config.network.model_spec(config.voice_codec),
        run.language / "train.npz",
        run.language,
        config.language,
        worker=worker,
        num_workers=config.workers,
    )
    if start is not None:
        stage.start_from(grow(load_file(start / LANGUAGE_MODEL_FILE), stage.model))
    stage.run()


def train_draft(run: Run, config: PipelineConfig, worker: int) -> None:
    """Train the draft model as planned, on the language model's tokens."""
    guided = tuple(range(config.draft.num_layers))
    LanguageStage(
        config.draft.model_spec(config.voice_codec),
        run.language / "train.npz",
        run.draft,
        replace(config.language, guided_layers=guided),
        worker=worker,
        num_workers=config.workers,
    ).run()


def read_second(run: Run, config: PipelineConfig, worker: int) -> None:
    """Have the second speaker read the first lines of the corpus, as pairs with the first speaker.

    Raises:
        FileNotFoundError: `second.model` is not the folder of a Kokoro model.
    """
    kokoro = Kokoro(Path(config.second.model), run.folder, config.second.voice)
    teacher = Teacher(with_durations(run.folder), config.speech.speed)
    octaves = math.log2(config.second.reference_hz / config.codec.reference_hz)
    reader = PairReader(teacher, kokoro, config.second.speed, octaves)
    lines = run.corpus.read_text().splitlines()[: config.second.lines]
    for shard in range(worker, -(-len(lines) // _SECOND_SHARD), config.workers):
        if (run.second / f"sound_{shard:04d}.npz").exists():
            continue
        pairs: list[Pair] = []
        for i in range(shard * _SECOND_SHARD, min(len(lines), (shard + 1) * _SECOND_SHARD)):
            pairs += reader.read(lines[i], i, _speed(config.speech, i))
        # the sound last: it says that the shard is whole
        write_shard(run.second / f"speech_{shard:04d}.npz", [p.first for p in pairs])
        write_shard(run.second / f"own_{shard:04d}.npz", [p.second for p in pairs])
        write_shard(run.second / f"sound_{shard:04d}.npz", [p.target for p in pairs])


def _second_speech(run: Run, codec: CodecSpec) -> list[codec_sound.SpeakerSpeech]:
    """What the second speaker is learnt from; empty where it has not read."""
    paths = sorted(run.second.glob("sound_*.npz"))
    if not paths or codec.num_speakers == 1:
        return []
    frozen = load_frozen(run, codec)
    data, _ = load_corpus(paths, codec, with_samples=False)
    speech = [p.with_name(p.name.replace("sound", "speech")) for p in paths]
    codes = np.concatenate([_codes(frozen, u) for p in speech for u in read_shard(p)])
    return [codec_sound.SpeakerSpeech(data, codes, 1)]


def train_codec_sound(run: Run, config: PipelineConfig, index: int, budget_s: float) -> None:
    """Stage B, from the frozen codec or from the last result of this stage."""
    codec = config.voice_codec
    pairs = [(p, run.tokens / p.name.replace("speech", "tokens")) for p in shards(run.speech)]
    pairs = [p for p in pairs if p[1].exists()][: config.codec_shards]
    data, _ = load_corpus([p for p, _ in pairs], codec, with_samples=False)
    codes = np.concatenate([s.codes for _, tokens in pairs for s in load_spoken(tokens)])
    speech = [codec_sound.SpeakerSpeech(data, codes), *_second_speech(run, codec)]
    decoder = export.decoder_of(load_frozen(run, codec)).requires_grad_(True)
    if run.sound.exists():
        decoder.load_state_dict(grow(torch.load(run.sound, weights_only=True), decoder))
    worker = _worker(run.codec, "sound", index, config, budget_s)
    codec_sound.train(speech, decoder, config.sound, worker)
    if index == 0:
        _save(decoder.state_dict(), run.sound)


def export_run(run: Run, config: PipelineConfig, folder: Path) -> None:
    """Write the voice folder from the newest of each part; may be repeated while training runs."""
    frozen = load_frozen(run, config.voice_codec)
    checkpoint = torch.load(run.language / "checkpoint.pt", weights_only=True, map_location="cpu")
    decoder = export.decoder_of(frozen).state_dict()
    if run.sound.exists():
        decoder = torch.load(run.sound, weights_only=True)
    figures_path = run.folder / "figures.json"
    figures = json.loads(figures_path.read_text()) if figures_path.exists() else {}
    model = config.network.model_spec(config.voice_codec)
    spec = export.default_spec(model, config.voice_codec, config.sampling, figures)
    encoding = export.encoding_half(frozen).state_dict()
    export.export_voice(folder, spec, checkpoint["average"], decoder, encoding)
    draft = run.draft / "checkpoint.pt"
    if draft.exists():
        weights = torch.load(draft, weights_only=True, map_location="cpu")["average"]
        export.export_draft(folder, config.draft.model_spec(config.voice_codec), weights)


def _save(state: dict[str, torch.Tensor], path: Path) -> None:
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def _wait_for(path: Path, limit_s: float) -> None:
    """Wait until another worker has written `path`."""
    deadline = time.monotonic() + limit_s * 2 + 60
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"worker 0 never wrote {path}")
        time.sleep(0.2 + 0.1 * random.random())
