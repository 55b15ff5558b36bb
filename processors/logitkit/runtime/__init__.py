"""Rows under compiled automata: which tokens are legal (masks) and the next state (steps), for batches that mix automata.

Each constraint takes a slot in the registry of its vocabulary; the state of a row is a slot and a state number.

compiled_language             what has a compiled language, and what is compiled from it together with other text
constraint, constraint_state  the base class of all constraints, and their state
host_rows, device_rows        the two operations, advance and mask, on the host and on a device
branching, branching_state    rows that may be in several configurations at once
automaton_state, single_row   the part of the state that others have as well; the state of one row without tensors
slot_generation               which automaton of a slot a state belongs to
registry_tables, stack_tables  the two operations with tensors only, without and with stacks
automaton_registry, registry_layout, registry_user  the automata of one vocabulary, their tables on a device, and what has an
                                                    automaton among them
host_logits, tensor_logits    logits on the CPU as numpy arrays (HostAndDevice: the base of their processors), and as tensors
row_mask, mask_cache          the mask of one visited state on the CPU, and a cache of limited size for them
logit_arrays, broken_logits   views and fills of rows on the CPU; NaN and infinities in the logits of a model
walk, completion              one text on the host, step by step; a shortest completion
byte_form, examples           a constraint byte by byte, for explanations; matching texts and random ones
shared, automaton_files       automata compiled once per process, and shared with other processes in files
tracing, width                support for torch.compile; the check of the number of logits columns
"""

from logitkit.runtime.automaton_files import AutomatonFiles as AutomatonFiles
from logitkit.runtime.automaton_registry import NEUTRAL as NEUTRAL
from logitkit.runtime.automaton_registry import AutomatonRegistry as AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState as AutomatonState
from logitkit.runtime.constraint import Constraint as Constraint
from logitkit.runtime.constraint import mask_rows as mask_rows
from logitkit.runtime.constraint import mask_tensors as mask_tensors
from logitkit.runtime.constraint_state import ConstraintState as ConstraintState
from logitkit.runtime.registry_layout import RegistryLayout as RegistryLayout
from logitkit.runtime.registry_tables import advance_tensors as advance_tensors
from logitkit.runtime.registry_user import RegistryUser as RegistryUser
from logitkit.runtime.row_mask import RowMask as RowMask
from logitkit.runtime.shared import Shared as Shared
from logitkit.runtime.shared import shared_by as shared_by
from logitkit.runtime.width import check_width as check_width

__all__ = [
    "NEUTRAL",
    "AutomatonFiles",
    "AutomatonRegistry",
    "AutomatonState",
    "Constraint",
    "ConstraintState",
    "RegistryLayout",
    "RegistryUser",
    "RowMask",
    "Shared",
    "advance_tensors",
    "check_width",
    "mask_rows",
    "mask_tensors",
    "shared_by",
]
