"""One interface for all adapters: the call that each engine makes at a step, and the copies that the engine forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import logitkit as lk
from logitkit.tracking.generation import Room

# transformers is imported where it is used: run as a program, a benchmark is read before pytest, which must see plugins first.
Call = Callable[[Any, Any], Any]
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Core:
    """A processor on torch, without an adapter.

    Args:
        processor: The processor to apply.
        prompt: [B, P], the prompt of each row.
        columns: The width of the logits.
    """

    def __init__(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> None:
        self.processor = processor
        self.context = lk.Context.of(prompt.tolist(), vocabulary_size=columns)
        self.state = processor.init_state(self.context)

    def step(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Commit a token in each row, and process logits in place."""
        self.state = self.processor.advance(self.state, tokens)
        return self.processor.process_logits(self.state, logits, self.context)[1]

    def after(self, ids: Integers, logits: Floats) -> Floats:
        """Return what becomes of logits after whole histories, [B, P + N]; those given stay as they are."""
        new = torch.from_numpy(ids[:, self.context.prompt.shape[1] :])
        state = self.processor.init_state(self.context)
        state = self.processor.advance(state, new) if new.shape[1] else state
        return self.processor.process_logits(state, torch.from_numpy(logits.copy()), self.context)[1].numpy()


class Adapter:
    """An adapter with its engine's arrays.

    Args:
        name: The engine.
        copies: Whether the engine forces a copy of the logits.
        rows: How many rows one call of the engine can have.
    """

    name: str
    copies: bool
    rows: Sequence[int] = (1, 32)

    def budget(self, rows: int, length: int) -> float:
        """Return the most that a step may cost beyond core and copies, in us."""
        raise NotImplementedError

    def logits(self, values: Floats) -> Any:
        """Return logits, [B, V], as the engine has them."""
        raise NotImplementedError

    def ids(self, ids: Integers) -> Any:
        """Return histories, [B, L], as the engine has them."""
        raise NotImplementedError

    def values(self, processed: Any) -> Floats:
        """Return logits of the engine, [B, V], on the same memory."""
        return np.asarray(processed)

    def hook(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Call:
        """Return what the engine calls with ids and logits in one generation, which begins with the prompt."""
        raise NotImplementedError

    def bare(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Callable[[Tensor, Tensor], object]:
        """Return the step of the core on torch, from the last tokens and logits, with the copy that the engine forces."""
        core = Core(processor, prompt, columns)
        return (lambda tokens, logits: core.step(tokens, logits.clone())) if self.copies else core.step

    def tensor(self, logits: Any) -> Tensor:
        """Return the engine's logits on torch, on the same memory."""
        return torch.from_numpy(self.values(logits))


class Numpy(Adapter):
    """`logitkit_adapters.arrays` around the core, for an engine of which numpy arrays are all that there is to know."""

    name, copies = "numpy", False

    def budget(self, rows: int, length: int) -> float:
        return 15

    def logits(self, values: Floats) -> Any:
        return values

    def ids(self, ids: Integers) -> Any:
        return ids

    def hook(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Call:
        from logitkit_adapters.arrays import call_to_torch

        core, known = Core(processor, prompt, columns), prompt.shape[1]

        def call(ids: Any, logits: Any) -> Any:
            nonlocal known
            shown, taken = call_to_torch(ids, logits)
            length = shown.tensor.shape[1]
            if length > known:
                new = shown.tensor[:, known:] if length > known + 1 else shown.tensor[:, known]
                core.state, known = processor.advance(core.state, new), length
            return taken.back(processor.process_logits(core.state, taken.tensor, core.context)[1]).array

        return call


class MlxArrays(Numpy):
    """The same with arrays of mlx, several rows at once; mlx-lm has no such call, but an engine on mlx may."""

    name, copies = "mlx arrays", True

    def budget(self, rows: int, length: int) -> float:
        return 60

    def logits(self, values: Floats) -> Any:
        import mlx.core as mx

        logits = mx.array(values)
        mx.eval(logits)
        return logits

    def ids(self, ids: Integers) -> Any:
        import mlx.core as mx

        shown = mx.array(ids)
        mx.eval(shown)
        return shown


class MlxLm(MlxArrays):
    """The hook of mlx-lm, which sees one sequence a call; sequences of a batch have one each."""

    name, copies = "mlx-lm", True

    def budget(self, rows: int, length: int) -> float:
        return 60 * rows

    def logits(self, values: Floats) -> Any:
        return [super(MlxLm, self).logits(row[None]) for row in values]

    def ids(self, ids: Integers) -> Any:
        return [super(MlxLm, self).ids(row) for row in ids]

    def values(self, processed: Any) -> Floats:
        return np.concatenate([np.asarray(row) for row in processed])

    def bare(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Callable[[Tensor, Tensor], object]:
        cores = [super(MlxLm, self).bare(processor, row[None], columns) for row in prompt]
        return lambda tokens, logits: [
            core(*row) for core, *row in zip(cores, tokens.split(1), logits.split(1), strict=True)
        ]

    def hook(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Call:
        from logitkit_adapters.mlx_lm import logits_processor

        hooks = [logits_processor(processor) for _ in prompt]
        return lambda ids, logits: [hook(*row) for hook, *row in zip(hooks, ids, logits, strict=True)]


class LlamaCpp(Adapter):
    """Runs a hook as `Llama.generate` does: on one sequence, whose logits are a field of llama.cpp's candidates."""

    name, copies, rows = "llama.cpp", False, (1,)

    def budget(self, rows: int, length: int) -> float:
        return 15

    def logits(self, values: Floats) -> Any:
        fields = np.dtype([("id", np.intc), ("logit", np.single), ("p", np.single)], align=True)
        candidates = np.zeros(values.shape[1], fields).view(np.recarray)
        candidates.logit[:] = values[0]
        return candidates.logit

    def ids(self, ids: Integers) -> Any:
        return ids[0].astype(np.intc)

    def values(self, processed: Any) -> Floats:
        return np.asarray(processed)[None]

    def hook(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Call:
        from logitkit_adapters.llama_cpp import LlamaCppLogitsProcessor, logits_processor

        (hook,) = logits_processor(processor)
        assert isinstance(hook, LlamaCppLogitsProcessor)
        return hook.for_generation(Room(), ())


class Transformers(Adapter):
    """The hook of `generate`."""

    name, copies = "transformers", True

    def budget(self, rows: int, length: int) -> float:
        return 40 + 0.8e-3 * rows * length

    def logits(self, values: Floats) -> Any:
        return torch.from_numpy(values)

    def ids(self, ids: Integers) -> Any:
        return torch.from_numpy(ids)

    def hook(self, processor: lk.Processor[Any], prompt: Integers, columns: int) -> Call:
        from logitkit_adapters.transformers import logits_processor

        return logits_processor(processor)


ADAPTERS: tuple[Adapter, ...] = (Numpy(), LlamaCpp(), MlxArrays(), MlxLm(), Transformers())
