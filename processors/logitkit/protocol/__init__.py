"""The processor protocol: three pure functions, a state that is a value, and a context.

Everything above this package calls processors through the protocol; nothing here knows a particular processor.

processor        Processor, and what its optional attributes say
stateless        a processor made from a function
calls            checks of what the methods are given and return; host loop or tensors only
state_errors     errors that name the wrong part of a state
declared         read the declarations in the class of a processor, with safe defaults
kind, described  the JSON form of a class and its parameters; the bases of the classes of this package
context          Context: what a processor can know about a batch in addition to its state
state            select, concatenate and move the rows of a state; Fill pads fields of different sizes
portable         methods that a state class defines so that it can be saved
guidance         the logits of a second pass, and the error of engines that have none
not_a_hook       the error for a processor passed to an engine without a hook
row_limit        the token budget of a row
"""

from logitkit.protocol.calls import advance_checked as advance_checked
from logitkit.protocol.calls import init_checked as init_checked
from logitkit.protocol.calls import process_checked as process_checked
from logitkit.protocol.context import Context as Context
from logitkit.protocol.context import concatenate_context as concatenate_context
from logitkit.protocol.context import select_context as select_context
from logitkit.protocol.described import same_processor as same_processor
from logitkit.protocol.kind import Kind as Kind
from logitkit.protocol.kind import Role as Role
from logitkit.protocol.processor import Processor as Processor
from logitkit.protocol.processor import name_of as name_of
from logitkit.protocol.processor import role_of as role_of
from logitkit.protocol.state import Fill as Fill
from logitkit.protocol.state import concatenate as concatenate
from logitkit.protocol.state import leaves as leaves
from logitkit.protocol.state import rows_of as rows_of
from logitkit.protocol.state import select as select
from logitkit.protocol.state import to as to
from logitkit.protocol.stateless import Stateless as Stateless

__all__ = [
    "Context",
    "Fill",
    "Kind",
    "Processor",
    "Role",
    "Stateless",
    "advance_checked",
    "concatenate",
    "concatenate_context",
    "init_checked",
    "leaves",
    "name_of",
    "process_checked",
    "role_of",
    "rows_of",
    "same_processor",
    "select",
    "select_context",
    "to",
]
