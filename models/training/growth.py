"""Weights of a smaller model as the start of a larger one: new rows for new ids and speakers."""

import torch
from torch import Tensor, nn

_SPREAD = 0.1  # of new rows of the language model's tables


def grow(stored: dict[str, Tensor], module: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """What `module` starts with: `stored` where it has it, else its own.

    Tables with fewer rows than wanted get new ones behind them: small noise, which a table of zeros
    (that of speakers) does not need.

    Raises:
        ValueError: A tensor differs in more than its number of rows; the message names it.
    """
    generator = torch.Generator().manual_seed(seed)
    grown: dict[str, Tensor] = {}
    for name, own in module.state_dict().items():
        old = stored.get(name)
        if old is None:
            grown[name] = own.clone()
            continue
        if old.shape[1:] != own.shape[1:] or old.shape[0] > own.shape[0]:
            raise ValueError(f"{name} has shape {tuple(old.shape)}, wanted {tuple(own.shape)}")
        more = torch.zeros(own.shape[0] - old.shape[0], *own.shape[1:])
        more.normal_(0.0, _SPREAD, generator=generator)
        grown[name] = torch.cat([old.to(own.dtype), more.to(own.dtype)])
    return grown
