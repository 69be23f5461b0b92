"""What the engine steps: the protocol of a decoder over paged KV, and the choice of one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from torch import Tensor

from kernels.cpu.build import CompilerMissingError, KernelBuildError
from kernels.cpu.decoder import UnsupportedShapeError
from kernels.cpu.library import load_kernels
from models.attention import AttentionMeta, PagedKV
from models.cpu_decoder import CpuDecoder
from models.language_model import LanguageModel
from models.spec import ModelSpec
from models.torch_decoder import TorchDecoder


class StepModel(Protocol):
    """A decoder that advances a ragged batch by one forward pass."""

    def forward(
        self, token_ids: Tensor, positions: Tensor, meta: AttentionMeta, kv: PagedKV
    ) -> Tensor:
        """Run every row, storing its keys and values into ``kv``.

        Args:
            token_ids: ``[T]`` int64.
            positions: ``[T]`` int64, equal to ``meta.positions``.
            meta: Where the rows belong.
            kv: Pages, updated in place.

        Returns:
            Hidden states of ``meta.output_rows`` after the final norm, ``[R, hidden]``.
        """
        ...

    def logits(self, hidden: Tensor, position_in_frame: Tensor) -> Tensor:
        """Logits over the codes that are legal at each row's frame position.

        Args:
            hidden: ``[R, hidden]`` from ``forward``.
            position_in_frame: ``[R]`` int64, 0..6: the position of the code to be drawn.

        Returns:
            ``[R, K + 1]``: the K codes of the row's block; the last column is end-of-speech,
            ``-inf`` where illegal.
        """
        ...


def make_step_model(
    language_model: LanguageModel,
    spec: ModelSpec,
    *,
    device: str,
    compile: Literal["auto", "off", "required"] = "auto",
    compiler: str | None = None,
    cache_directory: Path | None = None,
) -> tuple[StepModel, str | None]:
    """The fastest step model that this machine can run.

    Args:
        language_model: In evaluation mode, on ``device``.
        spec: Its dimensions.
        device: ``cpu`` or a CUDA device; the compiled kernels are for the CPU.
        compile: ``auto`` falls back to plain torch, ``required`` raises instead, ``off`` does
            not try.
        compiler: C++ compiler; ``None`` finds one.
        cache_directory: Where the compiled library is kept; ``None`` is the user's cache.

    Returns:
        The model, and why it is plain torch although ``compile`` allowed better: a short
        snake_case reason and its detail (``compiler_missing: ...``), ``None`` when it is not.

    Raises:
        CompilerMissingError, KernelBuildError, UnsupportedShapeError: With ``required``.
    """
    if compile == "off" or not device.startswith("cpu"):
        return TorchDecoder(language_model, spec), None
    try:
        kernels = load_kernels(compiler=compiler, cache_directory=cache_directory)
        return CpuDecoder(language_model, spec, kernels), None
    except (CompilerMissingError, KernelBuildError, UnsupportedShapeError) as error:
        if compile == "required":
            raise
        return TorchDecoder(language_model, spec), f"{_REASONS[type(error)]}: {error}"


_REASONS = {
    CompilerMissingError: "compiler_missing",
    KernelBuildError: "kernel_build_failed",
    UnsupportedShapeError: "unsupported_shape",
}
