"""The text that the teacher reads: original templates, WordNet's example sentences, word lists.

WordNet 3.0 (Princeton, free licence) is read from the unpacked Debian package `wordnet-base`;
rare words come from the lexicon inside the `hibari-tts` package. Deterministic for a seed.
"""

import gzip
import json
import random
import re
from importlib import resources
from pathlib import Path

from models.training import templates

_EXAMPLE = re.compile(r'"([^"]+)"')
_ALLOWED = re.compile(r"[A-Za-z ,.?!;:'\-]+")
_UNFIT = re.compile(
    r"\b(fuck|shit|sex|bitch|nigg|rape|whore|penis|vagina|cunt|bastard|kill|jew|fag|slut|tits?|ass|"
    r"nazi|hitler|concubine|dung|naked|breast|murder|suicid|drug|negro|gay|homosex|lesbian|terroris|"
    r"orgasm|erecti|genital|urin|feces|excre|prostitut|incest|slave|molest|porn|corpse|lynch)\w*",
    re.IGNORECASE,
)
_CARRIERS = (
    "Say {} and {} again.",
    "The word {} is not {}.",
    "{} or {}, {} or {}?",
    "They call it {} {}.",
    "He wrote {}, {} and {}.",
    "What does {} mean?",
    "A {} is like a {}.",
    "We need more {} and less {}.",
    "Some people like {} very much.",
    "I think {} means {}.",
    "{}.",
    "{}, {}, {}.",
    "{} {}.",
    "First {}, then {}.",
    "It was {} in the {} of {}.",
    "Neither {} nor {} came.",
    "{} and {}.",
    "How do you spell {}?",
)


def _sentence(text: str) -> str | None:
    """Clean one example; None where it is unfit to be read aloud."""
    text = re.sub(r"\s+", " ", text.replace("--", ", ").replace("`", "'")).strip(" '-;,")
    if not _ALLOWED.fullmatch(text) or _UNFIT.search(text):
        return None
    words = text.split()
    if not 2 <= len(words) <= 34 or any(len(w) > 1 and w.isupper() for w in words):
        return None
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?!" else text + "."


def wordnet_sentences(folder: Path) -> list[str]:
    """Example sentences and phrases of the four `data.*` files, cleaned, without duplicates."""
    found: dict[str, None] = {}
    for part in ("verb", "noun", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            for example in _EXAMPLE.findall(line.split("|", 1)[1]):
                if sentence := _sentence(example.split(" - ")[0]):
                    found.setdefault(sentence)
    return list(found)


def wordnet_glosses(folder: Path) -> list[str]:
    """Short definitions as noun phrases, for vocabulary: "A device for ..."."""
    found: dict[str, None] = {}
    for part in ("noun", "verb", "adj"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = re.sub(r"\([^)]*\)", "", line.split("|", 1)[1].split(";")[0].split('"')[0])
            if 4 <= len(gloss.split()) <= 22 and (sentence := _sentence(gloss)):
                found.setdefault(sentence)
    return list(found)


def lexicon_words() -> list[str]:
    """Lower-case words of 3 to 12 letters in the teacher's own pronunciation lexicon."""
    raw = resources.files("hibari").joinpath("assets/lexicon_us_gold.json.gz").read_bytes()
    words = json.loads(gzip.decompress(raw))
    fit = re.compile(r"[a-z]{3,12}")
    return sorted(w for w in words if fit.fullmatch(w) and not _UNFIT.search(w))


def _carried(count: int, words: list[str], rng: random.Random) -> list[str]:
    lines = []
    for _ in range(count):
        carrier = rng.choice(_CARRIERS)
        text = carrier.format(*[rng.choice(words) for _ in range(carrier.count("{}"))])
        lines.append(text[0].upper() + text[1:])
    return lines


def build(wordnet: Path | None, sentences: int, seed: int) -> list[str]:
    """Return `sentences` distinct lines in random order, mixed from all sources.

    Args:
        wordnet: Folder with WordNet's `data.*` files; None leaves their share to the templates.
        sentences: Lines wanted; the WordNet examples are used up first to their share.
        seed: Same seed, same corpus.
    """
    rng = random.Random(seed)
    examples = wordnet_sentences(wordnet) if wordnet else []
    glosses = wordnet_glosses(wordnet) if wordnet else []
    rng.shuffle(examples)
    rng.shuffle(glosses)
    shares = {"examples": 0.42, "glosses": 0.13, "templates": 0.33, "carried": 0.12}
    lines = examples[: int(sentences * shares["examples"])]
    lines += glosses[: int(sentences * shares["glosses"])]
    carried = int(sentences * shares["carried"])
    templated = int(sentences * shares["templates"]) if wordnet else sentences - carried
    lines += templates.sentences(templated, rng)
    lines += _carried(sentences - len(lines), lexicon_words(), rng)
    lines = list(dict.fromkeys(lines))
    rng.shuffle(lines)
    return lines
