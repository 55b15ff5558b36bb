"""An upper bound on the number of tokens that a text under a grammar still needs to its end.

The *cost* of a state is the number of tokens to the next exit (`bytes.pushdown_views`), and 0 in an exit. The cost of a frame
is the number of tokens from the moment when it is popped to the next exit. If the frame can be popped at several exits, the
worst one counts. The token that pops the frame is part of this number, and is taken to read only its first byte. The cost of a
row is that of its state and of all its frames together.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"` as in `bytes.pushdown_dfa`: the start needs one token,
`item read` none, and F one token, the closing bracket. So after `((`, three tokens are needed, as in `((1))`.

Invariants: the bound can be kept. From every row that needs tokens, some token leads to a row that needs one token less. For
this, only moves count that need no more frames than their state does, so that there is always room for them. An exit after
which some frame leaves no text, because of a condition on the next character, does not count.

The bound is exact but for two cases: a token that ends a rule and writes more than one byte after it, and exits that need
different numbers of tokens.

Source: Knuth, A generalization of Dijkstra's algorithm (1977), for the least costs of derivations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import PushdownStep
from logitkit.compiler.bytes.pushdown_views import Rows, Views
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.completion.min_tokens_to_finish import UNREACHABLE
from logitkit.compiler.tokens.effects.action_table import ActionTable
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

__all__ = ["grammar_min_tokens"]


def grammar_min_tokens(dfa: PushdownDfa, table: ActionTable, limits: Limits, name: str) -> NDArray[np.int32]:
    """Return the cost of each state and frame, 0 for those that no row is in.

    Args:
        dfa: The automaton over bytes, which is deterministic.
        table: The actions of tokens.
        limits: Bound on the work.
        name: The name of the language in an error.

    Raises:
        ConfigurationError: Some state has no bound.
        PatternTooLarge: It takes too many steps.
    """
    costs = _Costs(dfa, table, limits)
    of_state, of_frame = costs.least()
    unknown = of_state[costs.rows].max(initial=0) >= UNREACHABLE or of_frame[costs.pushed].max(initial=0) >= UNREACHABLE
    if unknown:
        raise ConfigurationError(
            f"the number of tokens that {name} needs to end has no limit, because the text after a rule depends on how the rule "
            "ended; leave out 'closing'"
        )
    found = np.concatenate([of_state[: dfa.states], of_frame])
    return np.where(found < UNREACHABLE, found, 0).astype(np.int32)


class _Costs:
    """The equations of the costs.

    Attributes:
        rows: The states that rows are in.
        pushed: The frames that tokens push.
    """

    def __init__(self, dfa: PushdownDfa, table: ActionTable, limits: Limits) -> None:
        self.limits = limits
        self.frames = dfa.frames
        return_state = {(state, frame): after for state, frame, after in dfa.return_state.tolist()}
        rows = _rows(dfa, limits)
        self.views = views = Views(
            rows, list(dfa.pushed), dfa.target.tolist(), return_state, limits, may_contradict=True
        )
        views.settle()
        self.exit = np.array(views.own, object) != 0
        pairs = [pair for after in views.after for pair in after.items()]
        self.frame, self.after = np.array(pairs, np.int64).reshape(-1, 2).T
        self._read_tokens(dfa, table)
        self._read_views(dfa.pushed, dfa.target.tolist(), dfa.states)

    def _read_tokens(self, dfa: PushdownDfa, table: ActionTable) -> None:
        """Collect the moves of tokens that pop nothing: the state that they lead from, and their target."""
        source, target = table.transitions.source.astype(np.int64), table.transitions.target.astype(np.int64)
        targets = Targets(dfa.states + dfa.frames, dfa.frames)
        is_action = targets.is_action(target)
        action = np.where(is_action, targets.action_number(target), 0)
        height = np.where(is_action, np.append(table.height, 0)[action], 0)
        pops = is_action & (np.append(table.rest, 0)[action] > 0)
        inside = (source < dfa.states) & (target >= FIRST_STATE) & ~pops
        legal = target[inside]
        reads = targets.is_action(legal)
        made = targets.action_number(legal[reads])
        self.rows = np.unique(np.concatenate([[dfa.start], legal[~reads], table.state[made]]))
        frames = np.unique(table.pushed[made])
        self.pushed = targets.frame_number(frames[frames > 0])
        kept = inside & (height <= dfa.need[np.minimum(source, dfa.states - 1)])
        self.source, self.target = np.divmod(np.unique(source[kept] * 2**32 + target[kept]), 2**32)
        self.states = dfa.states
        self.action_state, self.action_pushed = table.state.astype(np.int64), table.pushed.astype(np.int64)

    def _read_views(self, pushed: tuple[tuple[int, ...], ...], target: list[int], states: int) -> None:
        """Collect the moves of views after a pop: the view, the state, and the frames that are pushed, and then -1."""
        views = self.views
        widest = max(map(len, pushed), default=0)
        found: list[tuple[int, ...]] = []
        for view in range(states, len(views.views)):
            for does in views.does[view]:
                if PushdownStep.is_push(does):
                    move = PushdownStep.move(does)
                    frames, to = pushed[move], target[move]
                else:
                    frames, to = (), does
                height = max([len(frames) + views.need[to], *(i + views.frame_need[f] for i, f in enumerate(frames))])
                if height <= views.need[view]:
                    found.append((view, to, *frames, *[-1] * (widest - len(frames))))
        moves = np.array(found, np.int64).reshape(-1, 2 + widest)
        self.view, self.view_target, self.view_pushed = moves[:, 0], moves[:, 1], moves[:, 2:]

    def least(self) -> tuple[Ints, Ints]:
        """Return the costs of views and of frames."""
        cost = np.full(len(self.exit), UNREACHABLE)
        cost[self.exit] = 0
        met = np.bincount(self.frame, minlength=self.frames) > 0
        while True:
            self.limits.spend(4 + (len(self.source) + len(self.view) + len(self.frame)) // 32)
            of_frame = np.where(met, 0, UNREACHABLE)
            np.maximum.at(of_frame, self.frame, cost[self.after])
            # A row of `action_pushed` lists frames as states, and then 0; a row of `view_pushed` lists frames, and then -1.
            framed = np.concatenate([np.zeros(self.states, np.int64), of_frame])
            pushes = cost[self.action_state] + framed[self.action_pushed].sum(axis=1)
            reached = np.concatenate([cost[: self.states], np.full(self.frames, UNREACHABLE), pushes])
            before = cost.copy()
            np.minimum.at(cost, self.source, np.minimum(1 + reached[self.target], UNREACHABLE))
            further = np.append(of_frame, 0)[self.view_pushed].sum(axis=1)
            np.minimum.at(cost, self.view, np.minimum(1 + cost[self.view_target] + further, UNREACHABLE))
            if (cost == before).all():
                return cost, of_frame


def _rows(dfa: PushdownDfa, limits: Limits) -> Rows:
    """Return for each state its steps, each with the symbols that take it, as a mask."""
    state, symbol = np.nonzero(dfa.step)
    limits.spend(len(state))
    found: list[dict[int, int]] = [{} for _ in range(dfa.states)]
    for source, one, does in zip(state.tolist(), symbol.tolist(), dfa.step[state, symbol].tolist(), strict=True):
        row = found[source]
        row[does] = row.get(does, 0) | 1 << one
    return [[(mask, does) for does, mask in row.items()] for row in found]
