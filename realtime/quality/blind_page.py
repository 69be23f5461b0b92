"""A page for the ear: the same lines from two measurements, in hidden order, with a reveal.

Each pair is played as X and Y, which is which decided by the browser when the page is opened; the
louder one is brought down to the other, because loudness passes for quality.
"""

import json
import random
from pathlib import Path

import numpy as np

from realtime.quality.page import audio_uri, document, escape
from realtime.quality.results import LineResult, Report
from realtime.quality.sound import FLOOR_DBFS, Samples, speech_level_dbfs
from realtime.quality.speakers import read_audio

_SCRIPT = """
const pairs = PAIRS, names = NAMES, answers = [];
const list = document.getElementById('pairs');
for (let i = pairs.length - 1; i > 0; i--) {
  const j = Math.floor(Math.random() * (i + 1)); [pairs[i], pairs[j]] = [pairs[j], pairs[i]];
}
pairs.forEach((pair, number) => {
  const swapped = Math.random() < 0.5, order = swapped ? [1, 0] : [0, 1];
  const item = document.createElement('section');
  const title = document.createElement('p');
  title.textContent = (number + 1) + '. ' + pair.text;
  item.append(title);
  order.forEach((side, place) => {
    const audio = document.createElement('audio');
    audio.controls = true; audio.preload = 'none'; audio.src = pair.audio[side];
    item.append(' ' + 'XY'[place] + ' ', audio);
  });
  [['X is better', order[0]], ['Y is better', order[1]], ['no difference', -1]].forEach(choice => {
    const label = document.createElement('label'), button = document.createElement('input');
    button.type = 'radio'; button.name = 'pair' + number;
    button.onchange = () => { answers[number] = choice[1]; };
    label.append(' ', button, choice[0]); item.append(label);
  });
  const key = document.createElement('small');
  key.className = 'key'; key.hidden = true;
  key.textContent = '  X: ' + names[order[0]] + ', Y: ' + names[order[1]];
  item.append(key); list.append(item);
});
document.getElementById('reveal').onclick = () => {
  document.querySelectorAll('.key').forEach(key => { key.hidden = false; });
  document.querySelectorAll('input').forEach(button => { button.disabled = true; });
  const count = side => answers.filter(answer => answer === side).length;
  document.getElementById('result').textContent = names[0] + ' preferred ' + count(0) + ' times, '
    + names[1] + ' ' + count(1) + ' times, no difference ' + count(-1) + ' times, '
    + (pairs.length - answers.filter(a => a !== undefined).length) + ' not answered.';
};
"""


def blind_page(
    before: tuple[Report, Path], after: tuple[Report, Path], *, num_pairs: int, seed: int = 0
) -> str:
    """The page for two result folders.

    Args:
        before: A report and its folder.
        after: The other.
        num_pairs: Lines to play, drawn among those that both have.
        seed: Of the draw.
    """
    pairs = [
        {"text": a.text, "audio": _matched(before[1] / a.audio, after[1] / b.audio)}
        for a, b in _draw(before[0], after[0], num_pairs, seed)
    ]
    names = _names(before[1], after[1])
    script = _SCRIPT.replace("PAIRS", _literal(pairs), 1).replace("NAMES", _literal(names), 1)
    body = (
        "<h1>Which sounds better?</h1><p>Listen to both of each pair, as often as you like, and "
        f"choose. {len(pairs)} pairs; the order is hidden until the reveal.</p>"
        '<div id="pairs"></div><p><button id="reveal">Reveal</button></p>'
        '<p><b id="result"></b></p>'
        f"<noscript>{escape('This page needs JavaScript.')}</noscript>"
    )
    return document("Which sounds better?", body, script)


def _literal(value: object) -> str:
    """A JavaScript literal that cannot end the script it stands in."""
    return json.dumps(value).replace("</", "<\\/")


def _names(before: Path, after: Path) -> list[str]:
    """Shortest names that differ."""
    if before.name != after.name:
        return [before.name, after.name]
    return [str(before), str(after)]


def _draw(
    before: Report, after: Report, num_pairs: int, seed: int
) -> list[tuple[LineResult, LineResult]]:
    """Pairs of recordings of one text; same voice and seed where both have it."""
    theirs: dict[str, list[LineResult]] = {}
    for line in after.lines:
        if line.audio:
            theirs.setdefault(line.text, []).append(line)
    ours = [line for line in before.lines if line.audio and line.text in theirs]
    drawn = random.Random(seed).sample(ours, min(num_pairs, len(ours)))
    return [(line, _nearest(line, theirs[line.text])) for line in drawn]


def _nearest(line: LineResult, others: list[LineResult]) -> LineResult:
    return max(others, key=lambda other: (other.voice == line.voice, other.seed == line.seed))


def _matched(first: Path, second: Path) -> list[str]:
    recordings = [read_audio(path) for path in (first, second)]
    levels = [speech_level_dbfs(*recording) for recording in recordings]
    target = min(levels)
    return [
        audio_uri(_scaled(samples, target - level), rate_hz)
        for (samples, rate_hz), level in zip(recordings, levels, strict=True)
    ]


def _scaled(samples: Samples, gain_db: float) -> Samples:
    if gain_db < FLOOR_DBFS / 2:  # silence beside speech: nothing to match
        return samples
    return (samples * 10 ** (gain_db / 20)).astype(np.float32)
