"""`token_bitmask` has the bits of what `process_logits` leaves, for all constraints and kinds of state, on both paths."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, StaleAutomaton, VocabularyError
from logitkit.protocol.processor import role_of
from logitkit.runtime.constraint import Constraint
from tests.batches import COLUMNS, Batch, batches, logits_of, step, tensor_path
from tests.examples import examples
from tests.registry import EOS, PAD, ROWS, Row, ids, vocabulary

CONSTRAINTS = [row for row in ROWS if isinstance(row.processor, Constraint)]


@cache
def others() -> list[lk.Processor[Any]]:
    """A language that nests, and constraints without a language."""
    nested = lk.Grammar('root ::= "[" root "]" | [a-z0-9]*', vocabulary())
    return [nested, lk.BanTokens(ids(b"a", b"1")), lk.ForcedTokens(ids(b"c"))]


def is_of_constraints(row: Row) -> bool:
    """Whether a chain of the processor, and of a constraint before it, consists of constraints."""
    return role_of(row.processor) is lk.Role.CONSTRAINT


def by_hand(left: Tensor) -> list[list[int]]:
    """Pack [B, V] bool with Python's own integers; the highest bit is the sign, and bits after the last column are 1."""
    left = torch.nn.functional.pad(left, (0, -left.shape[1] % 32), value=True)
    words = range(0, left.shape[1], 32)
    sums = [[sum(1 << j for j, bit in enumerate(row[i : i + 32]) if bit) for i in words] for row in left.tolist()]
    return [[word - (1 << 32) if word >= 1 << 31 else word for word in row] for row in sums]


def left_by(processor: Any, state: Any, context: lk.Context) -> Tensor:
    rows = context.batch_size
    return processor.process_logits(state, torch.full((rows, COLUMNS), 0.25), context)[1] > -torch.inf  # type: ignore[no-any-return]


def check_run(processor: Any, batch: Batch, *columns: int) -> None:
    """Compare the bits with the logits before the first token of a batch and after each, on both paths."""
    context = batch.context()
    state = processor.init_state(context)
    for t in range(batch.steps + 1):
        if t:
            state = processor.advance(state, batch.tokens[:, t - 1])
            context = step(context, batch.tokens[:, t - 1])
        bits = processor.token_bitmask(state, *columns)
        assert bits.dtype == torch.int32
        assert bits.tolist() == by_hand(left_by(processor, state, context))
        if not any(getattr(part, "runs_on_host", False) for part in [state, *state]):
            with tensor_path():
                assert processor.token_bitmask(state, *columns).tolist() == bits.tolist()


@pytest.mark.parametrize("row", CONSTRAINTS, ids=str)
@settings(max_examples=examples(8))
@given(st.data())
def test_the_bits_are_the_mask_of_the_logits(row: Row, data: st.DataObject) -> None:
    check_run(row.processor, data.draw(batches(row)))


@pytest.mark.parametrize("row", [row for row in ROWS if is_of_constraints(row)], ids=str)
@settings(max_examples=examples(8))
@given(st.data())
def test_the_bits_of_a_chain_are_the_mask_of_its_logits(row: Row, data: st.DataObject) -> None:
    """With a language of its own kind, with a nesting one that may contradict it, and with bans."""
    other = data.draw(st.sampled_from(others()))
    both = [row.processor, other] if data.draw(st.booleans()) else [other, row.processor]
    # Where no part has a vocabulary, the number of columns is not known otherwise.
    check_run(lk.chain(*both, eos_ids=[EOS]), data.draw(batches(row)), COLUMNS)


def peer() -> Any:
    return pytest.importorskip(
        "xgrammar", reason="needs XGrammar: pip install -c constraints.txt apache-tvm-ffi, then --no-deps xgrammar"
    )


@pytest.mark.parametrize("row", CONSTRAINTS, ids=str)
@settings(max_examples=examples(8))
@given(st.data())
def test_the_kernel_of_xgrammar_masks_logits_as_process_logits(row: Row, data: st.DataObject) -> None:
    """In rows that go on. In others, `process_logits` gives EOS the logit 0 if it was -inf, which bits cannot."""
    batch = data.draw(batches(row, dtype=torch.float32))
    processor: Any = row.processor
    context = batch.context()
    state = processor.advance(processor.init_state(context), batch.tokens)
    logits = logits_of(data.draw(st.integers(0, 99)), (len(batch.prompts), COLUMNS), torch.float32)
    logits = torch.where(logits.isinf(), 1.0, logits)
    masked = logits.clone()
    peer().apply_token_bitmask_inplace(masked, processor.token_bitmask(state))
    wanted = processor.process_logits(state, logits.clone(), context)[1]
    assert (masked > -torch.inf).equal(wanted > -torch.inf)
    going_on = ~processor.is_dead(state)
    assert masked[going_on].equal(wanted[going_on])


def test_the_kernel_of_xgrammar_leaves_the_next_row_alone() -> None:
    """It bans one column too many where the bit after the last column is 0."""
    regex = lk.Regex("(.|\n)*", vocabulary())
    state = regex.init_state(lk.Context.of([[]] * 3, COLUMNS))
    logits = torch.ones(3, COLUMNS)
    peer().apply_token_bitmask_inplace(logits, regex.token_bitmask(state))
    assert logits.equal(logits[:1].expand(3, -1))


def test_ended_dead_and_unconstrained_rows() -> None:
    regex = lk.Regex("[0-9]{2}", vocabulary())
    context = lk.Context.of([[]] * 3, COLUMNS)
    state = regex.init_state(context)
    (one,) = ids(b"1")
    state = regex.advance(state, torch.tensor([[one, one, EOS], [one, EOS, -1], [-1, -1, -1]]))
    state = lk.concatenate([state, regex.neutral_state(lk.Context.of([[]], COLUMNS))])
    ended, dead, begun, free = regex.token_bitmask(state, 75).tolist()
    # 75 columns are two whole words and 11 bits.
    spare = -1 << 11
    assert ended == [1 << EOS | 1 << PAD, 0, spare]
    assert dead == [1 << EOS, 0, spare]
    digits = [*ids(*(bytes([c]) for c in b"0123456789")), *ids(b"10", b"20")]
    assert begun == by_hand(torch.isin(torch.arange(75)[None], torch.tensor(digits)))[0]
    assert free == [-1, -1, -1]


def test_columns_that_do_not_fit_and_automata_that_are_gone_are_refused() -> None:
    regex = lk.Regex("[0-9]{3}", vocabulary())
    state = regex.init_state(lk.Context.of([[]], COLUMNS))
    with pytest.raises(VocabularyError, match="72 ids"):
        regex.token_bitmask(state, 40)
    with pytest.raises(ConfigurationError, match="columns is 0"):
        regex.token_bitmask(state, 0)
    other = lk.Regex("[0-9]{4}x", vocabulary())
    gone = other.init_state(lk.Context.of([[]], COLUMNS))
    del other
    with pytest.raises(StaleAutomaton):
        regex.token_bitmask(gone)


def test_a_chain_with_anything_else_is_refused_by_name() -> None:
    chain = lk.chain(lk.Regex("[0-9]+", vocabulary()), lk.TopK(5))
    state = chain.init_state(lk.Context.of([[]], COLUMNS))
    with pytest.raises(ConfigurationError, match="the chain has a TopK, which is not a constraint"):
        chain.token_bitmask(state)
    empty = lk.chain()
    with pytest.raises(ConfigurationError, match="no constraint"):
        empty.token_bitmask(empty.init_state(lk.Context.of([[]], COLUMNS)))
    bans = lk.chain(lk.BanTokens([3]))
    state = bans.init_state(lk.Context.of([[]], COLUMNS))
    with pytest.raises(ConfigurationError, match="give the columns"):
        bans.token_bitmask(state)
    assert bans.token_bitmask(state, 5).tolist() == [[0b10111 - 32]]


def test_languages_in_conflict_end_with_the_eos_of_their_vocabulary() -> None:
    """As their logits do, if the chain was given other ids, also ids beyond the columns."""
    nested = lk.Grammar('root ::= "[" root "]" | [a-z]', vocabulary())
    for given_ in ([PAD], [COLUMNS + 1]):
        chain = lk.chain(nested, lk.Regex("[0-9]", vocabulary()), eos_ids=given_)
        context = lk.Context.of([[]], COLUMNS)
        state = chain.init_state(context)
        assert left_by(chain, state, context)[0].nonzero()[:, 0].tolist() == [EOS]
        assert chain.token_bitmask(state).tolist() == [[1 << EOS, 0, -1 << COLUMNS % 32]]


def test_masks_of_many_rows_are_counted_in_the_memory_of_the_cache() -> None:
    """A mask keeps its bits, so its size in the cache includes them."""
    tokens = [bytes([a, b]) for a in b"abcdefghijklmnop" for b in range(32, 127)]
    big = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    regex = lk.Regex("([a-h][ -O])*", big)
    state = regex.init_state(lk.Context.of([[]], big.size))
    first = regex.token_bitmask(state)
    mask = next(iter(regex.registry.masks.visited.values()))
    assert mask.ceiling is not None
    assert mask.nbytes >= mask.ceiling.nbytes + 2 * big.size + first.nbytes - 4
    assert regex.token_bitmask(state).equal(first)
