"""One torch thread, as the engine has: a second one on a busy core makes tests far slower."""

import torch

torch.set_num_threads(1)
