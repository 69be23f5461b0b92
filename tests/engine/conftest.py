"""One torch thread, as the engine has: a second one on a busy core makes tests much slower."""

import torch

torch.set_num_threads(1)
