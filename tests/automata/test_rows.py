"""The two paths, row by row on the host and by tensors alone, on the same random rows of many automata."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.device_rows import mask_on_device
from logitkit.runtime.registry_tables import advance_tensors
from tests.automata.host_path import advance_rows, mask_on_host
from tests.examples import examples

PATTERNS = ["[a-z]*", "(ab)*", r"[^\n]*", "é+", r"[\s\S]*end", "(a|b)*a(a|b){3}", "x", r"[\s\S]*", r"\w{1,9}"]
TOKENS: list[bytes | None] = [
    None,
    *(bytes([b]) for b in range(256)),
    b"ab",
    b"abab",
    b"end",
    b"en",
    "é".encode(),
    "éé".encode(),
    b"a",
    None,
    b"\nx",
]


@cache
def _constraints(pads: bool) -> tuple[lk.Vocabulary, list[lk.Regex | lk.Choice | lk.Dfa]]:
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=[0, 264], size=270, pad_id=266 if pads else None)
    return vocabulary, [
        *(lk.Regex(p, vocabulary) for p in PATTERNS),
        lk.Choice(["a", "ab", "endless"], vocabulary),
        lk.Dfa({(0, 269): 1, (1, 1): 0}, 0, {1}, vocabulary),
    ]


@st.composite
def _rows(draw: st.DrawFn, constraints: list[lk.Regex | lk.Choice | lk.Dfa]) -> AutomatonState:
    slots, generations, states = [], [], []
    for _ in range(draw(st.integers(1, 8))):
        chosen = draw(st.integers(-1, len(constraints) - 1))
        if chosen < 0:
            slots.append(0)
            generations.append(0)
            states.append(draw(st.integers(0, 1)))
            continue
        handle = constraints[chosen].handle()
        slots.append(handle.slot)
        generations.append(handle.generation)
        states.append(
            draw(st.one_of(st.integers(0, constraints[chosen].automaton.states - 1), st.just(handle.automaton.start)))
        )
    return AutomatonState(*(torch.tensor(v, dtype=torch.int64) for v in (slots, generations, states)))


EXAMPLES = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


def _nothing_left(
    registry: AutomatonRegistry, slot: int, generation: int, state: int, row: torch.Tensor, pads: bool
) -> bool:
    """Whether all that a live or finished state allows is at -inf already."""
    automaton = registry.automaton(slot, generation)
    if state == DEAD:
        return True
    legal = np.flatnonzero(automaton.per_token(automaton.legal_classes(state)))
    ids = [0, 264, *([266] if pads else [])] if state == FINISHED else legal
    return bool((row[torch.as_tensor(ids)] == -torch.inf).all())


@EXAMPLES
@given(st.booleans(), st.data())
def test_both_paths_mask_alike(pads: bool, data: st.DataObject) -> None:
    vocabulary, constraints = _constraints(pads)
    state = data.draw(_rows(constraints))
    registry = constraints[0].registry
    dtype = data.draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64]))
    width = data.draw(st.sampled_from([270, 270, 275]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    logits = torch.randn(len(state.slot), width, generator=generator).to(dtype)
    logits[:, 5::17] = torch.inf
    logits[:, 3::19] = -torch.inf
    by_tensors = mask_on_device(registry.layout_on(logits.device), state.positions, logits.clone())
    by_rows = mask_on_host(registry, state, logits.clone())
    assert torch.equal(by_tensors, by_rows)
    assert by_rows.dtype == dtype
    assert not by_rows.isnan().any()
    for row, (slot, current) in enumerate(zip(state.slot.tolist(), state.state.tolist(), strict=True)):
        kept = by_rows[row] != -torch.inf
        if slot == 0:
            assert torch.equal(by_rows[row], logits[row])
        elif current == DEAD or _nothing_left(registry, slot, int(state.generation[row]), current, logits[row], pads):
            assert kept.nonzero().flatten().tolist() == [0, 264]
            assert by_rows[row, [0, 264]].tolist() == [0, 0]
        else:
            assert torch.equal(by_rows[row][kept], logits[row][kept])
            if current == FINISHED:
                allowed = {0, 264, 266} if pads else {0, 264}
                assert set(kept.nonzero().flatten().tolist()) <= allowed
        if slot and width > 270:
            assert not kept[270:].any()
        emptied = slot and _nothing_left(registry, slot, int(state.generation[row]), current, logits[row], pads)
        if slot and current not in (DEAD, FINISHED) and not emptied:
            accepting = bool(registry.automaton(slot, int(state.generation[row])).accepting[current])
            for eos in vocabulary.eos_ids:
                assert kept[eos] == (accepting and logits[row, eos] != -torch.inf)


@EXAMPLES
@given(st.booleans(), st.data())
def test_both_paths_advance_alike(pads: bool, data: st.DataObject) -> None:
    vocabulary, constraints = _constraints(pads)
    state = data.draw(_rows(constraints))
    registry = constraints[0].registry
    token = st.one_of(st.integers(-1, vocabulary.size - 1), st.sampled_from([-1, 0, 98, 99, 257, 262, 300]))
    width = data.draw(st.integers(1, 3))
    tokens = torch.tensor([[data.draw(token) for _ in range(width)] for _ in state.slot], dtype=torch.int64)
    now = state.state
    for column in tokens.unbind(1):
        now = advance_tensors(registry.tables, state.slot, state.generation, now, column)
    by_rows = advance_rows(registry, state, tokens)
    constrained = state.slot != 0
    assert torch.equal(by_rows[constrained], now[constrained])
    one_by_one = state
    for column in tokens.unbind(1):
        one_by_one = one_by_one._replace(state=advance_rows(registry, one_by_one, column))
    assert torch.equal(one_by_one.state, by_rows)


def test_stale_rows_die_on_the_tensor_path() -> None:
    _, constraints = _constraints(False)
    handle = constraints[0].handle()
    state = AutomatonState(*(torch.tensor([v]) for v in (handle.slot, handle.generation + 1, handle.automaton.start)))
    registry: AutomatonRegistry = constraints[0].registry
    masked = mask_on_device(registry.layout_on(state.state.device), state.positions, torch.full((1, 270), 5.0))
    assert masked[0].isfinite().nonzero().flatten().tolist() == [0, 264]
    assert masked[0, [0, 264]].tolist() == [0, 0]
    assert advance_tensors(registry.tables, *state, torch.tensor([98])).tolist() == [DEAD]


def test_logits_of_another_model_are_refused() -> None:
    _, constraints = _constraints(False)
    context = lk.Context.of([[]], vocabulary_size=200)
    with pytest.raises(lk.errors.VocabularyError, match="200 columns, but the vocabulary has 270 ids"):
        constraints[0].process_logits(constraints[0].init_state(context), torch.zeros(1, 200), context)
