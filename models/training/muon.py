"""Muon: momentum with orthogonalised matrix updates (Jordan et al., 2024).

In float32: torch's own runs the iteration in bfloat16, which is slow on a CPU without it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Map `[N, rows, columns]` to the same singular vectors with singular values near one."""
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-1, -2) if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x


class Muon(torch.optim.Optimizer):
    """For the matrices of the hidden layers; everything else belongs to AdamW."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        steps: int = 5,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "steps": steps}
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Apply one update; matrices of one shape are orthogonalised together."""
        del closure
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                updates = torch.stack([self._momentum(p, group["momentum"]) for p in params])
                updates = orthogonalize(updates, group["steps"])
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for p, update in zip(params, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * scale)

    def _momentum(self, p: Tensor, momentum: float) -> Tensor:
        """Nesterov momentum of the gradient."""
        assert p.grad is not None
        state = self.state[p]
        if "buffer" not in state:
            state["buffer"] = torch.zeros_like(p)
        buffer = state["buffer"]
        buffer.lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(buffer, momentum)
