"""Random chains of the registry's processors against each of their parts alone: what is legal, and where a row may end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch import Tensor

import logitkit as lk
from logitkit import Intersection, Role
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.protocol import leaves, role_of
from logitkit.runtime.constraint import Constraint
from tests.batches import processed
from tests.campaigns.campaign import Campaign, drawn
from tests.registry import EOS, PAD, ROWS, Row

COLUMNS = 72
BY_NAME = {row.name: row for row in ROWS if getattr(row.processor, "batch_size", None) is None}
# Parts with these roles keep tokens by their logits, so they are not compared alone.
READ_LOGITS = (Role.TEMPERATURE, Role.TRUNCATION, Role.WATERMARK)
DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Case:
    """A chain, and rows that run it.

    Args:
        names: The names of registry rows, in the order of the chain.
        rows: The steps of each row: a number that chooses a token, and whether it may be an illegal one, as in a draft.
        seed: The seed of the logits.
        dtype: The dtype of the logits.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[int, bool], ...], ...]
    seed: int
    dtype: torch.dtype


@st.composite
def cases(draw: DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from(sorted(BY_NAME)), min_size=1, max_size=5))
    # A constraint after a truncation is refused, and so is guidance that is not first, so most cases have the order that is
    # allowed.
    if draw(st.integers(0, 9)):
        names.sort(key=lambda name: (not BY_NAME[name].guided, role_of_row(BY_NAME[name]) >= Role.TEMPERATURE))
    steps = draw(st.integers(1, 12))
    step = st.tuples(st.integers(0, COLUMNS - 1), st.integers(0, 19).map(lambda n: n == 19))
    rows = draw(st.lists(st.tuples(*[step] * steps), min_size=1, max_size=3))
    return Case(tuple(names), tuple(rows), draw(st.integers(0, 2**32)), draw(st.sampled_from(DTYPES)))


def role_of_row(row: Row) -> Role:
    return max((role_of(part) or Role.BIAS for part in parts_of(row.processor)), default=Role.BIAS)


def parts_of(processor: Any) -> list[Any]:
    """Return the processors of a chain, and of an intersection inside it, each alone."""
    if isinstance(processor, lk.Chain):
        return [part for one in processor.processors for part in parts_of(one)]
    return [*processor.parts] if isinstance(processor, Intersection) else [processor]


class Parts:
    """The parts of a chain, each with a state of its own, which no other part changes."""

    def __init__(self, parts: Sequence[Any], context: lk.Context) -> None:
        self.context = context
        self.masking = [part for part in parts if role_of(part) not in READ_LOGITS]
        self.states = [part.init_state(context) for part in self.masking]
        self.forced = [part.ids for part in parts if isinstance(part, lk.ForcedTokens)]
        self.language = any(isinstance(part, Constraint) for part in parts)
        self.ended = torch.zeros(context.batch_size, dtype=torch.bool)
        self.steps = 0

    def legal(self) -> tuple[Tensor, Tensor]:
        """Return [B, COLUMNS] bool: the tokens that every part allows; and [B] bool: which rows an earlier part contradicts.

        A forced token wins over the masks before it, as its documentation says.
        """
        rows = self.context.batch_size
        found, overruled = torch.ones(rows, COLUMNS, dtype=torch.bool), torch.zeros(rows, dtype=torch.bool)
        for part, state in zip(self.masking, self.states, strict=True):
            mine = processed(part, state, torch.zeros(rows, COLUMNS), self.context)[1] > -torch.inf
            if isinstance(part, lk.ForcedTokens) and self.steps < len(part.ids):
                # A row that has ended is forced to nothing more.
                mine[self.ended] = torch.arange(COLUMNS) == EOS
                wins = ~self.ended & ~(found & mine).any(1)
                overruled |= wins
                found = torch.where(self.ended[:, None], found, mine)
            found &= mine
        return found, overruled

    def stopped(self) -> Tensor:
        """Return [B] bool: which rows a stop has ended."""
        found = torch.zeros(self.context.batch_size, dtype=torch.bool)
        for part, state in zip(self.masking, self.states, strict=True):
            if isinstance(part, lk.StopStrings | lk.LoopStop):
                found |= part.fired(state)
        return found

    def advance(self, tokens: Tensor) -> None:
        # An EOS that is forced ends nothing; that of another id is an end.
        hidden = any(self.steps < len(ids) and ids[self.steps] == EOS for ids in self.forced)
        text = torch.where(tokens == EOS, -1, tokens) if hidden else tokens
        for i, part in enumerate(self.masking):
            follows = role_of(part) is Role.CONSTRAINT and hasattr(part, "vocabulary")
            if isinstance(part, lk.ForcedEos):  # it counts every token, and ends with the row
                self.states[i] = part.advance_until_end(self.states[i], tokens, text == EOS)
            else:
                self.states[i] = part.advance(self.states[i], text if follows else tokens)
        self.ended |= text == EOS
        self.steps += 1


def check(case: Case, tried: Counter[str]) -> None:
    processors = [BY_NAME[name].processor for name in case.names]
    try:
        chain = lk.chain(*processors, eos_ids=[EOS])
    except (ConfigurationError, PatternTooLarge) as error:
        tried[f"chains refused: {reason(error)}"] += 1
        return
    context = lk.Context.of([[3]] * len(case.rows), COLUMNS, max_length=64)
    state, parts = chain.init_state(context), Parts(parts_of(lk.Chain(tuple(processors))), context)
    chance = torch.Generator().manual_seed(case.seed)
    in_conflict = torch.zeros(len(case.rows), dtype=torch.bool)
    for step in zip(*case.rows, strict=True):
        logits = (torch.randn(len(case.rows), COLUMNS, generator=chance) * 8).to(case.dtype)
        state, made = processed(chain, state, logits, context)
        # A chain whose states hold no tensor cannot tell how many rows there are.
        conflicts = chain.conflicts(state, columns=COLUMNS) if leaves(state) else torch.zeros_like(in_conflict)
        # EOS may itself be a stop, and what a stop has ended is not in conflict. NoRepeatNGram looks at the newest
        # tokens, so it forgets an end that no constraint on text remembers, or that has left its window.
        forgets = any(
            isinstance(part, lk.NoRepeatNGram) and (part.window is not None or not parts.language)
            for part in parts.masking
        )
        ended = in_conflict & parts.ended & ~parts.stopped()
        assert forgets or conflicts[ended].all(), "a row that ended in conflict is not in conflict"
        check_step(chain, made, parts, conflicts, tried)
        in_conflict = conflicts
        tokens = torch.tensor([choose(row, *choice) for row, choice in zip(made, step, strict=True)])
        state = chain.advance(state, tokens)
        parts.advance(tokens)
        context = context.at(context.lengths + 1)
    tried["chains compared"] += 1


def check_step(chain: lk.Chain, made: Tensor, parts: Parts, conflicts: Tensor, tried: Counter[str]) -> None:
    """Compare a step of all rows with what the parts allow."""
    legal, stopped, (by_all, overruled) = made > -torch.inf, parts.stopped(), parts.legal()
    assert not made.isnan().any(), "a logit is NaN"
    assert (made < torch.inf).all(), "a logit is infinite"
    assert legal.any(1).all(), "a row is left without a legal token"
    ends = torch.zeros(COLUMNS, dtype=torch.bool)
    ends[[EOS, PAD]] = True
    exact = not any(isinstance(p, Intersection) or role_of(p) in READ_LOGITS for p in chain.processors)
    language = parts.language
    # A draft or a conflict has written an EOS that a part holds back: a conflict, after which nothing binds a row without a
    # language.
    held_back = any(isinstance(part, lk.MinNewTokens | lk.SuppressAtBegin) for part in parts.masking)
    too_early = parts.ended & (not language and held_back)
    for row in range(len(made)):
        tried["masks of rows"] += 1
        nothing, forced = not by_all[row].any(), overruled[row] and by_all[row].any()
        if too_early[row] and conflicts[row]:
            tried["rows that ended too early"] += 1
            continue
        if nothing or ((stopped[row] or conflicts[row] or (parts.ended[row] and language)) and not forced):
            assert not legal[row, ~ends].any(), f"row {row} goes on after a stop, a conflict or EOS"
            why = "ended by a stop" if stopped[row] else "in conflict" if conflicts[row] else "after EOS"
            # After EOS, another one is not a repetition, though NoRepeatNGram bans it; and a forced EOS is not a conflict.
            named = conflicts[row] or stopped[row] or parts.ended[row] or parts.forced
            assert named, f"row {row} is left nothing, and is not in conflict"
            tried[f"rows {why}"] += 1
            continue
        wrong = (legal[row] & ~by_all[row]).nonzero()[:, 0].tolist()
        assert not wrong, f"row {row} allows the tokens {wrong}, which a part forbids"
        if exact:
            missing = (by_all[row] & ~legal[row]).nonzero()[:, 0].tolist()
            assert not missing, f"row {row} forbids the tokens {missing}, which every part allows"
        tried["rows that may end, as every part allows" if legal[row, EOS] else "rows that may not end yet"] += 1


def choose(logits: Tensor, number: int, draft: bool) -> int:
    if draft:
        return number
    legal = (logits > -torch.inf).nonzero()[:, 0]
    return int(legal[number % len(legal)])


def reason(error: Exception) -> str:
    known = ("after the truncation", "after Temperature(temperature=0.0)", "no text is allowed by all", "more than")
    return next((words for words in known if words in str(error)), str(error))


CAMPAIGN = Campaign(
    "chains", "random chains of all processors, with each of their parts alone", drawn(cases(), 100, check)
)
