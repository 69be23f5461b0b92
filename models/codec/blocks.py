"""The convolution block of the codec's encoder and decoder: time-major `[B, T, C]`."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.codec.speakers import Film, modulate


class ConvBlock(nn.Module):
    """norm -> dilated convolution of three taps -> gelu -> linear, added to the input.

    Causal blocks look only back and can continue from the `context` of an earlier call.
    """

    taps = 3

    def __init__(self, size: int, hidden_size: int, dilation: int, *, causal: bool) -> None:
        super().__init__()
        self.size, self.dilation, self.causal = size, dilation, causal
        self.norm = nn.RMSNorm(size, eps=1e-5)
        self.expand = nn.Linear(self.taps * size, hidden_size)
        self.contract = nn.Linear(hidden_size, size)
        nn.init.normal_(self.contract.weight, 0.0, 0.3 / math.sqrt(hidden_size))
        nn.init.zeros_(self.contract.bias)

    @property
    def context_rows(self) -> int:
        """Rows of past that the block reads."""
        return (self.taps - 1) * self.dilation

    def forward(
        self, x: Tensor, context: Tensor | None = None, film: Film | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the block.

        Args:
            x: `[B, T, C]`.
            context: `[B, context_rows, C]` from the call before; None starts from silence.
            film: The speaker's scale and shift of the normed input.

        Returns:
            The output `[B, T, C]` and the context for the next call.
        """
        normed, length = modulate(self.norm(x), film), x.shape[1]
        if context is not None:
            padded = torch.cat([context, normed], 1)
        else:
            left = self.context_rows if self.causal else self.context_rows // 2
            padded = functional.pad(normed, (0, 0, left, self.context_rows - left))
        taps = [padded[:, i * self.dilation : i * self.dilation + length] for i in range(self.taps)]
        hidden = functional.gelu(self.expand(torch.cat(taps, -1)), approximate="tanh")
        return x + self.contract(hidden), padded[:, length:]
