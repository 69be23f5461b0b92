"""What tells one speaker from another in the codec: scales and shifts of the decoder's features.

The codes carry the sounds, and the prosody relative to the speaker; who speaks is added here.
"""

import torch
from torch import Tensor, nn

Film = tuple[Tensor, Tensor]  # scale and shift, each [B, 1, C]


class SpeakerFilm(nn.Module):
    """A scale and a shift per speaker for each of several features (FiLM, Perez et al., 2018).

    Zero at first: every speaker is then the same.
    """

    def __init__(self, num_speakers: int, sizes: list[int]) -> None:
        super().__init__()
        tables = [nn.Embedding(num_speakers, 2 * size) for size in sizes]
        for table in tables:
            nn.init.zeros_(table.weight)
        self.tables = nn.ModuleList(tables)

    def forward(self, speaker: Tensor) -> list[Film]:
        """Speakers int64 `[B]` -> a scale and a shift per feature."""
        films: list[Film] = []
        for table in self.tables:
            scale, shift = table(speaker)[:, None].chunk(2, -1)
            films.append((scale, shift))
        return films


def modulate(x: Tensor, film: Film | None) -> Tensor:
    """`[B, T, C]` scaled and shifted; unchanged without a film."""
    return x if film is None else torch.addcmul(x + film[1], x, film[0])
