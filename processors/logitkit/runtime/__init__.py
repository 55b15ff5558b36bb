"""Rows under compiled automata: which tokens are legal (masks) and the next state (steps), for batches that mix automata.

Each constraint leases a slot in the bank of its vocabulary; the state of a row is a slot and a state number.

automaton_constraint, pushdown_constraint    base classes of all constraints, without and with a stack: step and mask
automaton_state, pushdown_state, single_row  states of rows; a single row without tensors
bank, bank_tables, bank_layout, bank_user    the automata of one vocabulary as tensors; pushdown_* for automata with a stack
host_logits                                  logits on the CPU as numpy arrays; TwoPaths, the base of processors that use them
tensor_logits                                logits by token id with tensors only
row_mask, mask_cache                         the mask of one visited state on the CPU, and a cache of limited size for them
shared, automaton_files                      automata compiled once per process, and shared with other processes in files
tracing, width                               support for torch.compile; the check of the number of logits columns
"""

from logitkit.runtime.automaton_constraint import AutomatonConstraint as AutomatonConstraint
from logitkit.runtime.automaton_constraint import advance_rows as advance_rows
from logitkit.runtime.automaton_constraint import mask_rows as mask_rows
from logitkit.runtime.automaton_files import AutomatonFiles as AutomatonFiles
from logitkit.runtime.automaton_state import AutomatonState as AutomatonState
from logitkit.runtime.bank import NEUTRAL as NEUTRAL
from logitkit.runtime.bank import Bank as Bank
from logitkit.runtime.bank_layout import BankLayout as BankLayout
from logitkit.runtime.bank_tables import advance_tensors as advance_tensors
from logitkit.runtime.bank_tables import mask_tensors as mask_tensors
from logitkit.runtime.bank_user import BankUser as BankUser
from logitkit.runtime.pushdown_constraint import PushdownConstraint as PushdownConstraint
from logitkit.runtime.pushdown_state import PushdownState as PushdownState
from logitkit.runtime.row_mask import RowMask as RowMask
from logitkit.runtime.shared import Shared as Shared
from logitkit.runtime.shared import shared_by as shared_by
from logitkit.runtime.width import check_width as check_width

__all__ = [
    "NEUTRAL",
    "AutomatonConstraint",
    "AutomatonFiles",
    "AutomatonState",
    "Bank",
    "BankLayout",
    "BankUser",
    "PushdownConstraint",
    "PushdownState",
    "RowMask",
    "Shared",
    "advance_rows",
    "advance_tensors",
    "check_width",
    "mask_rows",
    "mask_tensors",
    "shared_by",
]
