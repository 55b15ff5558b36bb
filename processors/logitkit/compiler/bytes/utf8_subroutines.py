r"""From characters to bytes without copies: the bytes after the first byte of a character are called.

UTF-8 has a few hundred states for the characters of `\w`, and `to_bytes` copies them for each place of a pattern where such a
character may stand. The pattern `\w{1,64}@\w{1,63}(\.\w{1,63}){1,3}` has 320 places, so it would have 60,000 states. Here, all
places call the same states. The first byte of a character pushes a frame, which says where each kind of character leads. Its
last byte pops the frame.

By hand, for place 7 of a pattern, which reads `é`:

    place 7    C3 ──▶ inside of a character, frame of place 7    A9 ──▶ place 8

Invariants:

- Places from which the same kinds of characters lead to the same places share a frame.
- A call begins at a node of a tree (`utf8`). There is a tree for each set of characters that some place reads. So each
  character that the tree allows leads on after each frame with which it is entered, and no text gets stuck inside of a
  character.
- An end says which kind of character was read. At most one frame is on the stack, and none between characters.
"""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.in_utf8 import (
    MANY_CLASSES,
    MANY_ROOTS,
    ascii_classes,
    symbol_targets,
    without_equal_symbols,
)
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.utf8 import Beyond, Utf8Tree
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits

__all__ = ["utf8_subroutines"]


def utf8_subroutines(dfa: SymbolDfa, alphabet: Alphabet, limits: Limits) -> NestedDfa | None:
    """Write the symbols of a minimal automaton out as UTF-8, with calls for the bytes inside of characters.

    Args:
        dfa: The automaton.
        alphabet: Its alphabet.
        limits: Bounds on the number of states, and on the size of their tables.

    Returns:
        The automaton, or None if the given one reads no character beyond ASCII, or too many different sets of them.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    limits.check_work(len(dfa.moves) * alphabet.size // 2)
    alphabet, targets = without_equal_symbols(alphabet, symbol_targets(dfa, alphabet.size))
    beyond = Beyond.of(alphabet)
    # Row 0 is that of states that read no character beyond ASCII, since states 0 and 1 are among them.
    rows, row_of = np.unique(targets[:, beyond.symbols], axis=0, return_inverse=True)
    read, read_by = np.unique(rows != DEAD, axis=0, return_inverse=True)
    frames, kinds = len(rows) - 1, rows.shape[1]
    if not frames or len(read) > MANY_ROOTS or kinds > MANY_CLASSES:
        return None
    tree = Utf8Tree.of(beyond, tuple([tuple((np.arange(kinds) * row).tolist()) for row in read]))
    ascii_class, ascii_symbols = ascii_classes(alphabet)
    below = 1 + len(ascii_symbols)
    byte_class = np.concatenate([ascii_class, tree.byte_class + (below - 1) * (tree.byte_class > 0)])
    leads = below + tree.continuations
    places, states = len(targets), len(targets) + len(tree.heights)
    width = leads + tree.leads.shape[1]
    limits.check_states(states)
    limits.check_work(states * width // 4)
    entered = tree.leads[read_by.ravel()]
    row, lead = np.nonzero(entered)
    calls, call = np.unique(entered[row, lead] * (1 + frames) + row, return_inverse=True)
    entry, frame = np.divmod(calls, 1 + frames)
    called = np.zeros(entered.shape, np.int32)
    called[row, lead] = NestedStep.call(call.ravel())
    step = np.zeros((states, width), np.int32)
    step[:places, 1:below] = targets[:, ascii_symbols]
    step[:places, leads:] = called[row_of.ravel()]
    # The leaf after the last byte is the kind of the character, and so the end.
    shown = np.where((tree.heights == 1)[:, None], NestedStep.end(tree.shown), tree.shown + places)
    step[places:, below:leads] = np.where(tree.shown != 0, shown, DEAD)
    accepting = np.zeros(states, bool)
    accepting[FIRST_STATE:places] = dfa.accepting
    return NestedDfa(
        step,
        byte_class,
        accepting,
        FIRST_STATE,
        places + entry,
        frame - 1,
        rows[1:].T.astype(np.int64),
        np.zeros(states, np.int64),
        blocks=frames,
        open_blocks=1,
    )
