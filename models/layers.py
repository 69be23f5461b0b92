"""Building blocks of the language model, in plain differentiable torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Scale each row to unit root mean square, then by a learned weight `[hidden]`."""

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """`[..., hidden]` -> `[..., hidden]`, in the dtype of `x`."""
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)), without biases."""

    def __init__(self, hidden_size: int, ffn_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, ffn_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, ffn_size, bias=False)
        self.down_proj = nn.Linear(ffn_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`[..., hidden]` -> `[..., hidden]`."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


def rotary_tables(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Rotary cosines and sines, each float32 `[..., T, 1, head_dim]`, for int positions `[..., T]`.

    Hugging Face's "rotate half" layout: the second half of a head repeats the frequencies of the
    first.
    """
    exponent = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angle = positions[..., None].float() * theta**-exponent
    angle = torch.cat([angle, angle], -1)[..., None, :]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to `[..., T, H, D]`."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin
