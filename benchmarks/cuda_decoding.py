"""Decoding with a model of a billion random weights on a CUDA device, with a constraint and without, captured and not."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import logitkit as lk
from benchmarks.cuda_comparison import DEVICE, captured
from benchmarks.cuda_steps import SCHEMA
from logitkit.protocol import leaves
from tests import vocabularies

__all__ = ["decoded"]

# As in Llama 3.2 1B.
LAYERS, WIDTH, INNER, HEADS, KEYS, HEAD = 16, 2048, 8192, 32, 8, 64
TOKENS, TURNS = 48, 3


class RandomModel:
    """A decoder with a static cache: layers of attention and of SwiGLU, with random weights in bfloat16.

    Args:
        size: The number of ids.
        rows: The number of sequences.
        room: The most tokens of each.
    """

    def __init__(self, size: int, rows: int, room: int) -> None:
        def weights(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=torch.bfloat16, device=DEVICE) * 0.02

        self.embedding = weights(size, WIDTH)
        self.layers = [
            {
                "queries": weights(HEADS * HEAD + 2 * KEYS * HEAD, WIDTH),
                "out": weights(WIDTH, HEADS * HEAD),
                "up": weights(2 * INNER, WIDTH),
                "down": weights(WIDTH, INNER),
            }
            for _ in range(LAYERS)
        ]
        self.cache = torch.zeros((LAYERS, 2, rows, KEYS, room, HEAD), dtype=torch.bfloat16, device=DEVICE)
        self.places = torch.arange(room, device=DEVICE)

    def logits(self, tokens: Tensor, place: Tensor) -> Tensor:
        """Return the logits after one token of each row, which goes to a place in the cache: float32."""
        x = functional.embedding(tokens, self.embedding)
        seen = (self.places <= place)[None, None, None]
        for layer, (keys, values) in zip(self.layers, self.cache, strict=True):
            parts = functional.linear(_normed(x), layer["queries"]).view(len(x), -1, HEAD)
            query, key, value = parts.split([HEADS, KEYS, KEYS], 1)
            keys.index_copy_(2, place, key[:, :, None])
            values.index_copy_(2, place, value[:, :, None])
            found = functional.scaled_dot_product_attention(
                query[:, :, None], keys, values, attn_mask=seen, enable_gqa=True
            )
            x = x + functional.linear(found.reshape(len(x), -1), layer["out"])
            gate, up = functional.linear(_normed(x), layer["up"]).chunk(2, 1)
            x = x + functional.linear(functional.silu(gate) * up, layer["down"])
        return functional.linear(_normed(x), self.embedding).float()


def _normed(x: Tensor) -> Tensor:
    return functional.rms_norm(x, x.shape[1:])


class Decoding:
    """A loop of decoding with buffers of its own, so that a graph of a step can read and write them.

    Args:
        model: The model.
        schema: The constraint, or None.
        rows: The number of sequences.
        as_graph: Whether a step is captured.
    """

    def __init__(self, model: RandomModel, schema: lk.JsonSchema | None, rows: int, as_graph: bool) -> None:
        self._model, self._schema = model, schema
        self._context = lk.Context.of([[]] * rows, vocabularies.tekken().size, DEVICE)
        self._start = None if schema is None else schema.init_state(self._context)
        self._state = [] if self._start is None else [leaf.clone() for leaf in leaves(self._start)]
        self._token, self._before = (torch.full((rows,), value, device=DEVICE) for value in (0, -1))
        self._place = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        self._graph = captured(self._step)[0] if as_graph else None

    def _step(self) -> None:
        """Choose the next token of each row."""
        scores = self._model.logits(self._token, self._place)
        if self._schema is not None:
            state = self._schema.advance(_like(self._start, self._state), self._before)
            scores = self._schema.process_logits(state, scores, self._context)[1]
            for own, leaf in zip(self._state, leaves(state), strict=True):
                own.copy_(leaf)
        self._token.copy_(scores.argmax(1))
        self._before.copy_(self._token)
        self._place.add_(1)

    def tokens(self) -> Tensor:
        """Return the tokens of all rows, from the start."""
        for own, leaf in zip(self._state, [] if self._start is None else leaves(self._start), strict=True):
            own.copy_(leaf)
        self._token.zero_()
        self._place.zero_()
        self._before.fill_(-1)
        written = []
        for _ in range(TOKENS):
            if self._graph is None:
                self._step()
            else:
                self._graph.replay()
            written.append(self._token.clone())
        return torch.stack(written, 1)


def decoded(rows: int) -> dict[str, float]:
    """Return the time for each token, in ms, with and without a constraint, eagerly and as a CUDA graph of the whole step."""
    v = vocabularies.tekken()
    model, schema = RandomModel(v.size, rows, TOKENS + 8), lk.JsonSchema(SCHEMA, v)
    ways = {
        f"{'without' if one is None else 'with'} a constraint, {'captured' if as_graph else 'eager'}": Decoding(
            model, one, rows, as_graph
        )
        for one in (None, schema)
        for as_graph in (False, True)
    }
    texts: dict[str, Tensor] = {}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            texts[name] = way.tokens()
            torch.cuda.synchronize()
            if turn:
                found[name].append((time.perf_counter() - begin) * 1e3 / TOKENS)
    written = texts["with a constraint, captured"]
    # On the CPU, every token must have been legal.
    on_cpu = lk.Context.of([[]] * rows, v.size)
    if bool(schema.is_dead(schema.advance(schema.init_state(on_cpu), written.cpu())).any()):
        raise SystemExit("the device wrote a token that the schema does not allow")
    result = {name: round(statistics.median(times), 3) for name, times in found.items()}
    result["rows that an eager step wrote otherwise"] = int((written != texts["with a constraint, eager"]).any(1).sum())
    print(f"{rows:4} decoding, ms for each token: {result}", flush=True)
    return result


def _like(state: Any, tensors: list[Tensor]) -> Any:
    """Return a state with other tensors."""
    left = iter(tensors)

    def built(part: Any) -> Any:
        return next(left) if isinstance(part, Tensor) else type(part)(*map(built, part))

    return built(state)
