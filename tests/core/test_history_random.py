"""Random engines: however they show histories, a row's state is that of a replay from its prompt."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from torch import Tensor

from logitkit import Context
from logitkit.tracking import DeviceRows, HistoryRows, Shown, Tracker, row_group
from logitkit.tracking import rows as history_rows
from logitkit.tracking.branches import branch_columns, hashes_of, names_of
from tests.core.ledger import Ledger, LedgerState, rows_of

PAD = 99
COLUMNS = 50

# Few ids, so that histories that differ have much in common.
tokens = st.integers(0, 2)
choice = st.integers(0, 2**16)


def leading_pads(ids: Tensor) -> Tensor:
    return (ids == PAD).cumprod(1).sum(1)


@dataclass(frozen=True)
class Row:
    """One sequence: left pads, prompt and output."""

    pads: int
    prompt: tuple[int, ...]
    output: tuple[int, ...] = ()

    @property
    def ids(self) -> list[int]:
        return [PAD] * self.pads + list(self.prompt) + list(self.output)

    def plus(self, *more: int) -> Row:
        return replace(self, output=self.output + more)


Run = list[Row]


class Engine(RuleBasedStateMachine):
    """Several runs of an engine that share one tracker and take turns."""

    keep: Callable[[Shown], HistoryRows] = staticmethod(row_group.keep_rows)

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(row_group, "keep_rows", self.keep)
        self.resolver = Tracker(Ledger(), skip=leading_pads, capacity=10_000)
        self.runs: list[Run] = []
        # An id that only one prompt has: no history is by chance also that of another run.
        self.unique = itertools.count(1000)
        self.forms = 0

    def teardown(self) -> None:
        self.patches.undo()

    def show(self, run: Run) -> None:
        """Show the histories of a run, and compare the states with the truth."""
        ids = self.given(torch.tensor([row.ids for row in run]).reshape(len(run), -1))
        state, context = self.resolver.resolve(ids, vocabulary_size=COLUMNS)
        ids.fill_(7)  # engines use their buffers again
        check(run, state, context)

    def given(self, ids: Tensor) -> Tensor:
        """Return the ids as engines have them: of either width, or as a part of something larger."""
        self.forms += 1
        rows, length = ids.shape
        if self.forms % 4 == 0:
            return ids.to(torch.int32)
        if self.forms % 4 == 1:
            wide = torch.full((rows, length + 5), 3)
            wide[:, :length] = ids
            return wide[:, :length]
        if self.forms % 4 == 2:
            return ids.T.contiguous().T
        return ids

    def begin(self, prompts: list[list[int]]) -> None:
        width = max(map(len, prompts)) + 1
        run = [Row(width - 1 - len(p), (*p, next(self.unique))) for p in prompts]
        self.runs.append(run)
        self.show(run)

    def pick(self, which: int) -> int:
        return which % len(self.runs)

    @initialize(prompts=st.lists(st.lists(tokens, max_size=4), min_size=1, max_size=4))
    def first(self, prompts: list[list[int]]) -> None:
        self.begin(prompts)

    @rule(prompts=st.lists(st.lists(tokens, max_size=12), min_size=1, max_size=4))
    def fresh_prompts(self, prompts: list[list[int]]) -> None:
        self.begin(prompts)

    @rule(prompt=st.lists(tokens, max_size=5), rows=st.integers(2, 4))
    def samples_of_one_prompt(self, prompt: list[int], rows: int) -> None:
        unique = next(self.unique)
        self.runs.append([Row(0, (*prompt, unique))] * rows)
        self.show(self.runs[-1])

    @rule(which=choice, more=st.lists(tokens, min_size=1, max_size=4))
    def next_turn(self, which: int, more: list[int]) -> None:
        """A prompt that continues a run by several tokens, which stays alive beside it."""
        run = self.runs[self.pick(which)]
        # Two ids that nothing has shown: a draft may have shown the others, and one more would continue that.
        tails = [(*more, next(self.unique), next(self.unique)) for _ in run]
        self.runs.append([Row(r.pads, r.prompt + r.output + t) for r, t in zip(run, tails, strict=True)])
        self.show(self.runs[-1])

    @rule(which=choice, new=st.lists(tokens, min_size=8, max_size=8), steps=st.integers(1, 3))
    def extend(self, which: int, new: list[int], steps: int) -> None:
        at = self.pick(which)
        for step in range(steps):
            self.runs[at] = [row.plus(new[(i + step) % 8]) for i, row in enumerate(self.runs[at])]
            self.show(self.runs[at])

    @rule(
        which=choice,
        parents=st.lists(choice, min_size=8, max_size=8),
        new=st.lists(tokens, min_size=8, max_size=8),
    )
    def beams(self, which: int, parents: list[int], new: list[int]) -> None:
        at = self.pick(which)
        run = self.runs[at]
        chosen = [run[parents[i] % len(run)] for i in range(len(run))]
        self.runs[at] = [row.plus(new[i]) for i, row in enumerate(chosen)]
        self.show(self.runs[at])

    @rule(
        which=choice,
        parents=st.lists(choice, min_size=1, max_size=5),
        new=st.lists(tokens, min_size=5, max_size=5),
    )
    def other_number_of_rows(self, which: int, parents: list[int], new: list[int]) -> None:
        at = self.pick(which)
        run = self.runs[at]
        self.runs[at] = [run[p % len(run)].plus(new[i]) for i, p in enumerate(parents)]
        self.show(self.runs[at])

    @rule(which=choice, draft=st.lists(tokens, min_size=1, max_size=20), kept=choice, times=st.integers(1, 2))
    def draft(self, which: int, draft: list[int], kept: int, times: int) -> None:
        """Look ahead token by token, then again from the beginning, and keep a part of it."""
        at = self.pick(which)
        for _ in range(times):
            for n in range(len(draft) + 1):
                self.show([row.plus(*draft[:n]) for row in self.runs[at]])
        self.runs[at] = [row.plus(*draft[: kept % (len(draft) + 1)]) for row in self.runs[at]]

    @rule(which=choice, back=choice)
    def rewind(self, which: int, back: int) -> None:
        """Show an earlier part, not below the prompt, and go on from there."""
        at = self.pick(which)
        shortest = min(len(row.output) for row in self.runs[at])
        cut = back % (shortest + 1)
        self.runs[at] = [replace(r, output=r.output[: len(r.output) - cut]) for r in self.runs[at]]
        self.show(self.runs[at])

    @rule(which=choice)
    def repeat(self, which: int) -> None:
        self.show(self.runs[self.pick(which)])

    @rule(which=choice)
    def part_ways(self, which: int) -> None:
        """Two runs of equal histories from which each goes its own way."""
        at = self.pick(which)
        one, other = ([row.plus(next(self.unique)) for row in self.runs[at]] for _ in range(2))
        self.show(one)
        self.show(other)
        self.runs[at] = one
        self.runs.append(other)

    @precondition(lambda self: len(self.runs) > 1)
    @rule(which=choice, new=st.lists(tokens, min_size=2, max_size=2))
    def put_together(self, which: int, new: list[int]) -> None:
        """Rows of two runs of equal length in one call."""
        one = self.runs[at := self.pick(which)][0]
        for run in self.runs[:at]:
            if len(run[-1].ids) == len(one.ids) and run[-1] != one:
                self.runs.append([one.plus(new[0]), run[-1].plus(new[1])])
                self.show(self.runs[-1])
                return

    @rule()
    def new_generation(self) -> None:
        """Whatever is shown next is a prompt."""
        self.resolver.new_generation()
        last = self.runs[-1]
        self.runs = [[Row(r.pads, r.prompt + r.output) for r in last]]
        self.show(self.runs[0])


def check(run: Run, state: LedgerState, context: Context) -> None:
    assert rows_of(state) == [(list(row.prompt), list(row.output)) for row in run]
    prompts = [list(row.prompt) for row in run]
    assert context.prompt_lengths.tolist() == [len(p) for p in prompts]
    assert context.lengths.tolist() == [len(r.prompt) + len(r.output) for r in run]
    width = context.prompt.shape[1]
    assert context.prompt.tolist() == [p + [-1] * (width - len(p)) for p in prompts]
    assert context.batch_size == len(run)
    assert context.vocabulary_size == COLUMNS


class DeviceEngine(Engine):
    """The same with the code for devices, which runs on the CPU too."""

    keep = DeviceRows


class CollidingEngine(Engine):
    """The same where all hashes are equal: they may propose parents, and only propose."""

    def __init__(self) -> None:
        super().__init__()
        self.patches.setattr(history_rows, "hashes_of", lambda rows, keys: [0] * len(rows))


budget = settings(max_examples=25, stateful_step_count=25)
TestOnTheHost = Engine.TestCase
TestOnTheHost.settings = budget
TestWithEqualHashes = CollidingEngine.TestCase
TestWithEqualHashes.settings = budget
TestOnADevice = DeviceEngine.TestCase
TestOnADevice.settings = budget


def test_the_names_of_rows_are_exact() -> None:
    rows = torch.randint(0, 3, (40, 30), generator=torch.Generator().manual_seed(1)).numpy()
    rows[20:30] = rows[:10]
    columns = branch_columns(rows)
    names, hashes = names_of(rows[:, columns], None), hashes_of(rows[:, columns], None)
    assert len(columns) < len(rows)
    for one, other in itertools.combinations(range(len(rows)), 2):
        equal = bool((rows[one] == rows[other]).all())
        assert (names[one] == names[other]) == equal
        assert hashes[one] == hashes[other] or not equal


def test_keys_are_part_of_names() -> None:
    rows = torch.zeros(3, 2, dtype=torch.int64).numpy()
    keys = torch.tensor([1, 2, 1]).numpy()
    for names in (names_of(rows, keys), hashes_of(rows, keys)):
        assert names[0] == names[2] != names[1]
