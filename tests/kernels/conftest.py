"""The kernels for this machine's instruction set, and the same without intrinsics."""

import pytest
import torch

from kernels.cpu.build import CompilerMissingError
from kernels.cpu.library import load_kernels


@pytest.fixture(params=["native", "portable"])
def kernels(request):
    torch.manual_seed(0)
    try:
        return load_kernels(defines=() if request.param == "native" else ("KERNELS_PORTABLE",))
    except CompilerMissingError as error:
        pytest.skip(str(error))
