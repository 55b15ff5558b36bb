"""Compile the kernels without a GPU: `python -m tests.kernels.compiling [--one-of-each] TARGET...`, such as `sm_90` or `gfx942`.

Prints as JSON, for each variant that some processors of the registry need, the registers of a thread, the bytes of its stack,
where registers are spilled, the bytes of shared memory, and the number of inexact operations; with `--one-of-each`, for the
first variant of each kernel. Runs in a process of its own, in which Triton's interpreter is off.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature

import logitkit as lk
from logitkit.kernels import switch
from logitkit.kernels.constraint_step import constraint_step
from logitkit.kernels.kernel import OPTIONS, Kernel
from tests.batches import COLUMNS, tensor_path
from tests.registry import ROWS

__all__ = ["Variant", "compiled", "recorded", "variants"]

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
# The rows of the registry whose steps are compiled, and dtypes of their logits.
STEPS = (
    ("Regex list", torch.float32, torch.float16),
    ("Nested lists", torch.float32, torch.bfloat16, torch.float64),
    ("Grammar palindromes", torch.float32),
    ("StopStrings texts", torch.float32),
    ("ThinkingBudget of three", torch.float32),
    ("ThinkingBudget with everything", torch.float32),
)
LISTS = lk.LogitBias({1: 2.0}), lk.RepetitionPenalty(1.2), lk.FrequencyPenalty(0.2), lk.BanTokens([1])
# Other processors whose steps are compiled, with a long window where one program has all of it.
OTHERS: tuple[tuple[Any, ...], ...] = (
    (lk.TopK(5), torch.float32, torch.float16),
    (lk.TopP(0.5), torch.float32, torch.bfloat16),
    (lk.TypicalP(0.5), torch.float32),
    (lk.MinP(0.1), torch.float32),
    (lk.TopA(0.1), torch.bfloat16),
    (lk.Temperature(0.5), torch.float32, torch.bfloat16),
    (lk.RepetitionPenalty(1.2), torch.float32),
    (lk.FrequencyPenalty(0.2), torch.float32),
    (lk.FrequencyPenalty(0.2, window=2000), torch.float32),
    (lk.NoRepeatNGram(3), torch.float32),
    (lk.Dry(0.8, breakers=(1,), window=2000), torch.float32),
    (lk.LogitBias({1: 2.0}), torch.float16),
    (lk.BanTokens([1]), torch.float32),
    # Those that do the first pass of the next one too.
    (lk.chain(lk.Temperature(0.5), lk.TopK(5), lk.TopP(0.5), lk.MinP(0.1)), torch.float32, torch.bfloat16),
    (lk.chain(lk.Temperature(0.5), lk.MinP(0.1), lk.TopK(5), lk.MinP(0.1), lk.TopP(0.5)), torch.float32),
    (lk.chain(*LISTS, lk.Temperature(0.5)), torch.float32, torch.float16),
    (lk.chain(*LISTS, lk.Stateless(lambda logits, context: logits)), torch.float32),
    (lk.chain(lk.Temperature(0.5), lk.TopP(0.5), lk.TopK(5), lk.Temperature(0.5)), torch.float32),
)


class Variant(NamedTuple):
    """A launch of a kernel, which needs a compiled variant.

    Args:
        kernel: The kernel.
        arguments: Its arguments.
        constants: Its constants.
        types: The types of the arguments that vary.
        warps: Warps in a program.
    """

    kernel: Kernel
    arguments: tuple[Any, ...]
    constants: tuple[int, ...]
    types: tuple[Any, ...]
    warps: int


@contextmanager
def recorded() -> Iterator[list[Variant]]:
    """Note the launches of kernels instead of starting them, for which no device is needed; results mean nothing."""
    launches: list[Variant] = []

    def launch(
        self: Kernel, device: Any, grid: Any, tables: Any, arguments: Any, constants: Any, types: Any, warps: int
    ) -> bool:
        given = arguments if tables is None else (tables.records, *tables.sizes, *arguments)
        launches.append(Variant(self, tuple(given), constants, types, warps))
        return True

    with (
        tensor_path(),
        mock.patch.object(switch, "runs_on", return_value=True),
        mock.patch.object(Kernel, "launch", launch),
    ):
        yield launches


def variants() -> dict[str, Variant]:
    """Return variants of all kernels, by name."""
    found: dict[str, Variant] = {}

    def note(name: str, launches: list[Variant]) -> None:
        found[f"{launches[-1].kernel.name}, {name}"] = launches[-1]

    with recorded() as launches:
        for name, *dtypes in STEPS:
            processor = next(row.processor for row in ROWS if row.name == name)
            context = lk.Context.of([[], []], COLUMNS, max_length=60)
            state = processor.init_state(context)
            processor.advance(state, torch.tensor([1, 2]))
            note(f"{name}: advance", launches)
            for dtype in dtypes:
                processor.process_logits(state, torch.zeros(2, COLUMNS, dtype=dtype), context)
                note(f"{name}: mask {dtype}", launches)
            if name == "Nested lists":
                tables = processor.registry.layout_on(torch.device("cpu")).kernel_tables  # type: ignore[attr-defined]
                at, rows = state.at, (state.at.state, state.stack, state.left)
                constraint_step(tables, at.slot, at.generation, rows, torch.tensor([1, 2]), torch.zeros(2, COLUMNS))
                note(f"{name}: advance and mask", launches)
        for processor, *dtypes in OTHERS:
            context = lk.Context.of([[], []], COLUMNS)
            before = len(launches)
            state = processor.advance(processor.init_state(context), torch.tensor([1, 2]))
            for dtype in dtypes:
                processor.process_logits(state, torch.zeros(2, COLUMNS, dtype=dtype), context)
            for number, launch in enumerate(launches[before:]):
                found[f"{launch.kernel.name}, {processor}: launch {number}, {launch.types[0]}"] = launch
    return found


def compiled(variant: Variant, target: GPUTarget) -> Any:
    """Return the compiled variant, as Triton compiles it at the first launch."""
    jit, backend = variant.kernel.jit, make_backend(target)
    binder = create_function_from_signature(jit.signature, jit.params, backend)
    chosen = {"num_warps": variant.warps, **OPTIONS}
    bound, types, options = binder(*variant.arguments, *variant.constants, **chosen)
    packed, signature, constants, attributes = jit._pack_args(backend, chosen, bound, types, options)
    return triton.compile(ASTSource(jit, signature, constants, attributes), target=target, options=packed.__dict__)


def usage(made: Any) -> dict[str, int]:
    """Return the registers, the bytes of the stack and the bytes of shared memory that a compiled kernel uses.

    And for NVIDIA's devices, the number of quotients that are approximate, and of operations that may be joined to a fused one.
    """
    inexact = re.findall(r"\b(?:div\.(?:full|approx)|(?:mul|add|sub)\.f32)", made.asm.get("ptx", ""))
    if "cubin" in made.asm:
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(made.asm["cubin"])
            file.flush()
            text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
        registers, stack = (int(re.search(rf"{name}:(\d+)", text)[1]) for name in ("REG", "STACK"))  # type: ignore[index]
    else:
        text = made.asm["amdgcn"]
        registers, stack = (
            int(re.search(rf"\.{name}:\s+(\d+)", text)[1])  # type: ignore[index]
            for name in ("vgpr_count", "private_segment_fixed_size")
        )
    return {"registers": registers, "stack": stack, "shared": made.metadata.shared, "inexact": len(inexact)}


def main(names: list[str], one_of_each: bool) -> None:
    """Compile all variants for some targets, or one of each kernel."""
    assert not os.environ.get("TRITON_INTERPRET"), "Triton's interpreter compiles nothing"
    chosen = variants()
    if one_of_each:
        chosen = dict({variant.kernel.name: (name, variant) for name, variant in reversed(chosen.items())}.values())
    found = {
        target: {name: usage(compiled(variant, TARGETS[target])) for name, variant in chosen.items()}
        for target in names
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name != "--one-of-each"], "--one-of-each" in sys.argv)
