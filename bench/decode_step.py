"""Time of one decode step: the CPU kernels and plain torch, interleaved in one run.

    python -m bench.decode_step --batches 1,8,48 --context 600 --kv-dtype float16

What arithmetic allows on one Zen 3 core (about 100 GFLOP/s float32, 20 GB/s of memory), default
voice: 4.6 M parameters read a token are 9 MFLOP, attention over 600 tokens another 4. Batch 1 is
bound by reading 9 MB of bf16 weights, 0.5 ms; at 80 % of peak the matrices take 0.9 ms at batch 8,
1.8 at 16, 5.5 at 48. A token of context is 6 KB of float32 to read: 1.5 ms at batch 8, 3 at 16,
9 at 48. Large batches are bound by the cache, not by arithmetic, and float16 pages halve that.

Wall time counts what else runs on the machine. CPU time leaves out the waiting for a core, but
not the caches and memory bandwidth that other work takes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from models.attention import AttentionMeta
from models.language_model import LanguageModel
from models.spec import ModelSpec
from models.step_model import StepModel, make_step_model


@dataclass(frozen=True)
class Pages:
    """See ``models.attention.PagedKV``."""

    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class DecodeStep:
    """One row for each of ``batch`` sequences whose caches hold ``context - 1`` tokens."""

    token_ids: Tensor
    meta: AttentionMeta
    kv: Pages
    position_in_frame: Tensor

    def run(self, model: StepModel) -> Tensor:
        """Hidden states, then logits ``[batch, K + 1]``."""
        hidden = model.forward(self.token_ids, self.meta.positions, self.meta, self.kv)
        return model.logits(hidden, self.position_in_frame)


def make_spec(num_layers: int, num_kv_heads: int) -> ModelSpec:
    """The default voice's shape, but for the two numbers that weigh most."""
    return ModelSpec(
        num_layers=num_layers,
        hidden_size=256,
        num_heads=4,
        num_kv_heads=num_kv_heads,
        head_dim=64,
        ffn_size=704,
        tie_embeddings=False,
        vocab_size=100 + 7 * 512,
        text_start_id=96,
        text_end_id=97,
        end_of_speech_id=98,
        audio_base_id=100,
        codebook_size=512,
    )


def make_model(spec: ModelSpec) -> LanguageModel:
    """Random weights with bf16 values, as shipped ones have."""
    model = LanguageModel(spec).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.copy_(weight.bfloat16())
    return model


def make_step(
    spec: ModelSpec, batch: int, context: int, *, block_size: int, dtype: torch.dtype
) -> DecodeStep:
    """A step over pages in random order."""
    per_sequence = -(-context // block_size)
    tables = torch.randperm(batch * per_sequence).int().view(batch, per_sequence)
    positions = torch.full((batch,), context - 1)
    slots = tables[:, (context - 1) // block_size].long() * block_size + positions % block_size
    shape = (spec.num_layers, tables.numel(), block_size, spec.num_kv_heads, spec.head_dim)
    return DecodeStep(
        token_ids=torch.randint(spec.audio_base_id, spec.vocab_size, (batch,)),
        meta=AttentionMeta(
            positions=positions,
            slot_mapping=slots,
            row_sequence=torch.arange(batch, dtype=torch.int32),
            context_lens=positions.int() + 1,
            block_tables=tables,
            output_rows=torch.arange(batch),
        ),
        kv=Pages(torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)),
        position_in_frame=torch.arange(batch) % spec.tokens_per_frame,
    )


def flops(spec: ModelSpec, batch: int, context: int) -> int:
    """Multiplications and additions of a step, matrices and attention."""
    heads = (2 * spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim
    layer = spec.hidden_size * (heads + 3 * spec.ffn_size)
    layer += 2 * spec.num_heads * spec.head_dim * context
    return 2 * batch * (spec.num_layers * layer + spec.hidden_size * spec.codebook_size)


class Timing(NamedTuple):
    """Seconds of one call."""

    wall_s: float
    cpu_s: float


def time_call(call: Callable[[], object]) -> Timing:
    """Run on this thread and time it."""
    wall, cpu = time.perf_counter(), time.thread_time()
    call()
    return Timing(time.perf_counter() - wall, time.thread_time() - cpu)


def measure_peak() -> float:
    """This core's float32 rate in a matrix product that fits its caches, FLOP/s."""
    a, b = torch.randn(384, 384), torch.randn(384, 384)
    return 2 * 384**3 / min(time_call(lambda: a @ b).cpu_s for _ in range(50))


def measure(
    step: DecodeStep, models: tuple[StepModel, StepModel], repeats: int
) -> tuple[list[Timing], list[Timing]]:
    """Timings of each step, the two models in turn, after one step of each to warm up."""
    times: tuple[list[Timing], list[Timing]] = ([], [])
    for repeat in range(repeats + 1):
        for model, timings in zip(models, times, strict=True):
            took = time_call(lambda model=model: step.run(model))
            if repeat:
                timings.append(took)
    return times


def report(spec: ModelSpec, options: argparse.Namespace) -> Iterator[str]:
    """Lines of the table, each as soon as it is measured."""
    language_model = make_model(spec)
    fast, _ = make_step_model(language_model, spec, device="cpu", compile="required")
    plain, _ = make_step_model(language_model, spec, device="cpu", compile="off")
    peak = measure_peak()
    yield (
        f"{spec.num_layers} layers, {spec.num_kv_heads} kv heads, context {options.context}, "
        f"{options.kv_dtype} pages of {options.block_size}, one thread, "
        f"{peak / 1e9:.0f} GFLOP/s in torch's matmul"
    )
    yield "batch  wall min  median  CPU min  median  plain CPU  ratio  tokens/s  of peak"
    for batch in options.batches:
        step = make_step(
            spec,
            batch,
            options.context,
            block_size=options.block_size,
            dtype=getattr(torch, options.kv_dtype),
        )
        with torch.inference_mode():
            ours, plain_timings = measure(step, (fast, plain), options.repeats)
        wall, cpu = [t.wall_s for t in ours], [t.cpu_s for t in ours]
        plain_s = statistics.median(t.cpu_s for t in plain_timings)
        cpu_s = statistics.median(cpu)
        share = flops(spec, batch, options.context) / min(cpu) / peak
        yield (
            f"{batch:5d} {min(wall) * 1e3:9.2f} {statistics.median(wall) * 1e3:7.2f} "
            f"{min(cpu) * 1e3:8.2f} {cpu_s * 1e3:7.2f} {plain_s * 1e3:10.1f} "
            f"{plain_s / cpu_s:6.1f} {batch / cpu_s:9.0f} {share:8.0%}"
        )


def main() -> None:
    """Print the table: milliseconds a step; ratio and tokens/s of the CPU medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--batches",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1, 4, 8, 16, 32, 48, 64],
        help="comma-separated numbers of streams",
    )
    parser.add_argument("--context", type=int, default=600, help="tokens a stream holds")
    parser.add_argument("--block-size", type=int, default=32, help="tokens a page")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--kv-heads", type=int, default=2, help="key and value heads of 4 heads")
    parser.add_argument("--kv-dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--repeats", type=int, default=20, help="timed steps of each model")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for line in report(make_spec(options.layers, options.kv_heads), options):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
