"""Steps by kernels give what steps by tensor operations give, bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.kernels.constraint_step import constraint_step
from logitkit.protocol import leaves
from logitkit.runtime.branching_state import Branching
from logitkit.runtime.constraint import Constraint
from tests import continue_saved
from tests.batches import COLUMNS, run, same_bits, same_state, tensor_path
from tests.kernels.interpreter import kernels
from tests.kernels.walks import DTYPES, Walk, batches, given_logits, in_memory, same
from tests.registry import EOS, PAD, ROWS, TOKENS, Row, ids, of_kind, vocabulary

CPU = torch.device("cpu")
STEPS = [
    row
    for row in ROWS
    if isinstance(row.processor, Constraint | lk.StopStrings | lk.ThinkingBudget) and not row.on_host
]
CHAINS = [row for row in ROWS if row.kind.startswith("chain")]
# Rows of each of these kinds share batches.
KINDS = ("branching", "stops", "thinking")


@pytest.mark.parametrize("row", STEPS, ids=str)
def test_each_processor_of_the_registry(row: Row) -> None:
    """All tokens in one launch; then the mask at the start and at the end, and the last token alone."""
    batch = continue_saved.batch(row, 0, DTYPES[STEPS.index(row) % 3])
    with tensor_path():
        by_tensors = run(row.processor, batch)
        before = row.processor.advance(row.processor.init_state(batch.context()), batch.tokens[:, :-1])
    with kernels() as started:
        state = row.processor.init_state(batch.context())
        prompts = started.total()
        at_once = row.processor.advance(state, batch.tokens)
        last = row.processor.advance(before, batch.tokens[:, -1])
        first, end = (
            row.processor.process_logits(at, batch.logits[step].clone(), batch.context())[1]
            for at, step in ((state, 0), (at_once, -1))
        )
    assert started.total() - prompts == 4
    assert same_state(at_once, by_tensors.state)
    assert same_state(last, by_tensors.state)
    assert same_bits(first, by_tensors.logits[0])
    assert same_bits(end, by_tensors.logits[-1])


@pytest.mark.parametrize("row", CHAINS, ids=str)
def test_chains(row: Row) -> None:
    batch = continue_saved.batch(row, 0, DTYPES[CHAINS.index(row) % 3])
    with tensor_path():
        by_tensors = run(row.processor, batch)
    with kernels():
        state = row.processor.advance(row.processor.init_state(batch.context()), batch.tokens)
        context = lk.Context.of(batch.prompts, COLUMNS, max_length=64)
        masked = row.processor.process_logits(row.processor.init_state(context), batch.logits[0].clone(), context)[1]
    assert same_state(state, by_tensors.state)
    assert same_bits(masked, by_tensors.logits[0])


@pytest.mark.parametrize("name", batches(vocabulary()))
def test_random_walks_of_constraints(name: str) -> None:
    seen: Counter[str] = Counter()
    # Few walks over the grammar push.
    for seed in range(20 if name == "pushdown" else 5):
        chance = random.Random(seed)
        with kernels(strip=chance.choice((16, 32)), strips=chance.choice((1, 2)), programs=chance.choice((1, 6, 24))):
            Walk.start(batches(vocabulary())[name], chance, 4, CPU).go(chance, 5, 8, seen)
    wanted = {
        "dead",
        "neutral",
        "emptied",
        *(("pushed", "popped", "limited") if name in ("nesting", "pushdown") else ()),
    }
    assert wanted <= {fact for fact, count in seen.items() if count}, seen


@cache
def processors_of(kind: str) -> list[Any]:
    """Return processors of a kind, which are kept, since states refer to their automata."""
    found: list[Any] = [row.processor for row in of_kind(kind)]
    if kind == "branching":
        # Rows that soon have more configurations than they may keep, and rows with several that have equally many frames, of
        # automata with one layer more and with two.
        palindromes = 'root ::= "a" root "a" | "b" root "b" | "1" root? "1" | ""'
        found.append(lk.Grammar(palindromes, vocabulary(), configurations=2))
        rules = [f'{rule} ::= "a" {rule} "{end}" | "1"' for rule, end in ("xb", "yc", "zd")]
        for count in (2, 3):
            root = "root ::= " + " | ".join("xyz"[:count])
            found.append(lk.Grammar("\n".join([root, *rules[:count]]), vocabulary()))
        assert {len(processor.automaton.layers) for processor in found} == {1, 2}
    return found


def mixed(kind: str, chance: random.Random) -> Any:
    """Return a state of some rows of several processors, of which some are stale, and a neutral one."""
    context = lk.Context.of([[3, 4, 5]], COLUMNS)
    processors = processors_of(kind)
    states = [processor.init_state(context) for processor in processors]
    neutral = (Branching if kind == "branching" else type(processors[0])).neutral_state(context)
    state = lk.concatenate([*chance.choices(states, k=5), neutral])
    if kind == "branching":
        return state._replace(generations=state.generations - stale(state.slots[:, :1], chance))
    return state._replace(at=state.at._replace(generation=state.at.generation - stale(state.at.slot, chance)))


def stale(slot: Tensor, chance: random.Random) -> Tensor:
    """Return 1 for a few rows that have an automaton, else 0."""
    lost = torch.tensor([chance.random() < 0.3 for _ in range(len(slot))]).view(slot.shape)
    return (lost & (slot > 0)).to(torch.int64)


def drawn(processor: Any, state: Any, chance: random.Random, liked: Tensor, steps: int) -> Tensor:
    """Return tokens for some rows, of which most are legal, by tensor operations."""
    rows, columns = leaves(state)[0].shape[0], list[Tensor]()
    context = lk.Context.of([[]] * rows, COLUMNS)
    odd = (-1, -2, COLUMNS, COLUMNS + 9, chance.randrange(COLUMNS))
    for _ in range(steps):
        legal = processor.process_logits(state, torch.zeros(rows, COLUMNS), context)[1] == 0
        generator = torch.Generator().manual_seed(chance.getrandbits(32))
        column = (torch.rand(rows, COLUMNS, generator=generator) * liked * legal).argmax(1)
        strange = torch.tensor([chance.random() < (0.1 if columns else 0.4) for _ in range(rows)])
        columns.append(torch.where(strange, chance.choice(odd), column))
        state = processor.advance(state, columns[-1])
    return torch.stack(columns, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_random_rows(kind: str) -> None:
    """Tokens that are legal, illegal, absent and impossible, and rows that are dead, finished, neutral and stale."""
    facts: Counter[str] = Counter()
    # Rows that branch take long in the interpreter.
    for seed in range(4 if kind == "branching" else 6):
        chance = random.Random(seed)
        # Each seed likes some tokens, so that brackets are opened, and texts can be read in several ways.
        liked = torch.rand(COLUMNS, generator=torch.Generator().manual_seed(seed)) ** 3
        liked[[*ids(b"a", b"1")]] = 1
        liked[EOS] = seed % 2
        with tensor_path():
            state, processor = mixed(kind, chance), processors_of(kind)[0]
        for _ in range(2):
            if kind == "thinking":
                state = processor.close(state, [chance.random() < 0.3 for _ in range(6)])
            with tensor_path():
                tokens = drawn(processor, state, chance, liked, 5)
            before = [leaf.clone() for leaf in leaves(state)]
            with tensor_path():
                wanted = processor.advance(state, tokens)
            with kernels(programs=chance.choice((1, 20))):
                found = processor.advance(state, tokens)
                one = processor.advance(processor.advance(state, tokens[:, 0]), tokens[:, 1].to(torch.int32))
                two = processor.advance(state, tokens[:, :2])
            assert all(map(same, leaves(state), before))
            assert all(map(same, leaves(found), leaves(wanted))), (seed, tokens, found, wanted)
            assert all(map(same, leaves(one), leaves(two)))
            state = wanted
            logits = given_logits(chance, (6, COLUMNS + chance.choice((0, 3))), chance.choice(DTYPES), CPU)
            logits[chance.randrange(6)] = -torch.inf
            context = lk.Context.of([[]] * 6, logits.shape[1])
            with tensor_path():
                masked = processor.process_logits(state, logits.clone(), context)[1]
            with kernels(strip=16, programs=chance.choice((1, 20))):
                ours = processor.process_logits(state, in_memory(logits, chance.randrange(3)), context)[1]
            assert same(masked, ours), (seed, state, logits.dtype)
            row_states = state.row_states if kind == "branching" else state.at.state
            facts.update(f"state {min(now, 2)}" for now in row_states.tolist())
            facts["masked"] += int((masked.isneginf() & ~logits.isneginf()).sum())
            if kind == "branching":
                facts["narrowed"] += int(state.narrowed.sum())
                depth = torch.where(state.states > 0, (state.stacks > 0).sum(2), -1)
                facts["alike"] += int(((depth[:, 1:] == depth[:, :-1]) & (depth[:, 1:] > 0)).sum())
    wanted_facts = {
        "state 0",
        "state 1",
        "state 2",
        "masked",
        *(("narrowed", "alike") if kind == "branching" else ()),
    }
    assert wanted_facts <= {fact for fact, count in facts.items() if count}, facts


def test_no_tokens_change_nothing() -> None:
    """Not even a stale row, which dies with its next token."""
    chance = random.Random(1)
    for kind in KINDS:
        with tensor_path():
            state, processor = mixed(kind, chance), processors_of(kind)[0]
        with kernels():
            found = processor.advance(state, torch.zeros(6, 0, dtype=torch.int64))
        assert all(map(same, leaves(found), leaves(state))), kind
    for processor in (lk.Regex("[a-c]{2,9}", vocabulary()), lk.JsonSchema({"type": "array"}, vocabulary())):
        start: Any = processor.init_state(lk.Context.of([[], []], COLUMNS))
        lost = start._replace(at=start.at._replace(generation=start.at.generation - torch.tensor([0, 1])))
        with kernels():
            unchanged = processor.advance(lost, torch.zeros(2, 0, dtype=torch.int64))
            after = processor.advance(lost, torch.zeros(2, 1, dtype=torch.int64) - 1)
        assert all(map(same, leaves(unchanged), leaves(lost)))
        assert after.at.state.tolist() == [2, 0]


def test_rows_with_room_for_too_many_frames_take_tensor_operations() -> None:
    """A kernel for them would take a minute to compile."""
    rule = 'root ::= "a" root "a" | "a"'
    context, token = lk.Context.of([[]], COLUMNS), torch.tensor(ids(b"a"))
    for configurations, depth, launches in ((16, 1024, 2), (17, 1024, 0), (64, 1024, 0)):
        grammar = lk.Grammar(rule, vocabulary(), configurations=configurations, max_depth=depth)
        with tensor_path():
            wanted = grammar.process_logits(
                grammar.advance(grammar.init_state(context), token), torch.zeros(1, COLUMNS), context
            )
        with kernels() as started:
            found = grammar.process_logits(
                grammar.advance(grammar.init_state(context), token), torch.zeros(1, COLUMNS), context
            )
        assert started.total() == launches
        assert all(map(same, leaves(found), leaves(wanted)))


def test_tables_that_32_bits_cannot_count_take_tensor_operations() -> None:
    regex = lk.Regex("[a-c]{2,9}", vocabulary())
    state = regex.init_state(lk.Context.of([[]], COLUMNS))
    with kernels():
        tables = regex.registry.layout_on(CPU).kernel_tables
        rows = state.at.state, state.stack, state.left
        for name, fits in (("pairs", 2**30 - 1), ("rows", 2**29 - 1)):
            columns = getattr(tables.records, name).shape[1]
            for count in (fits, fits + 1):
                table = torch.empty((count, columns), dtype=torch.int32, device="meta")
                large = type(tables).of(tables.records._replace(**{name: table}))
                assert large.fit is (count == fits)
        assert tables.fit
    assert constraint_step(large, state.at.slot, state.at.generation, rows, torch.tensor([28])) is None


@pytest.mark.parametrize("row", [row for row in STEPS if getattr(row.processor, "reads_prompt", False)], ids=str)
def test_prompts(row: Row) -> None:
    """Prompts with EOS, which ends nothing there."""
    chance = random.Random(0)
    said = [EOS, PAD, *(token for run in row.runs for token in run)]
    context = lk.Context.of([chance.choices(said, k=length) for length in (0, 3, 9, 9, 9, 9)], COLUMNS)
    with tensor_path():
        wanted = row.processor.init_state(context)
    with kernels():
        found = row.processor.init_state(context)
    assert all(map(same, leaves(found), leaves(wanted)))
    assert EOS in context.prompt


def test_counts_at_their_limits() -> None:
    """Strings of 17 to 40 characters, in tokens of which some end one string and begin the next."""
    v = lk.Vocabulary([*TOKENS, b'","', b'","ab', b'a","abc'], eos_ids=[EOS], pad_id=PAD)
    text = {"type": "string", "pattern": "^[a-z]*$", "minLength": 17, "maxLength": 40}
    schema = lk.JsonSchema({"type": "array", "items": text}, v)
    a, abc, between = ids(b"a")[0], ids(b"abc")[0], len(TOKENS)
    begin = [*ids(b"[", b'"'), *[abc] * 5]
    for tokens in (
        *[[*begin, *[a] * more] for more in (1, 2, 3)],  # 16, 17 and 18
        *[[*begin, *[abc] * 7, *[a] * more] for more in (3, 4)],  # 39 and 40
        [*begin, abc, between, abc],
        [*begin, abc, between + 1, a],
        [*begin, abc, between + 2, *[abc] * 5, between + 2],
    ):
        line, context = torch.tensor([tokens]), lk.Context.of([[]], v.size)
        with tensor_path():
            wanted = schema.advance(schema.init_state(context), line)
            masked = schema.process_logits(wanted, torch.zeros(1, v.size), context)[1]
        assert int(wanted.at.state) >> 32 > 0
        with kernels():
            found = schema.advance(schema.init_state(context), line)
            ours = schema.process_logits(found, torch.zeros(1, v.size), context)[1]
        assert all(map(same, leaves(found), leaves(wanted))), tokens
        assert same(ours, masked), tokens
