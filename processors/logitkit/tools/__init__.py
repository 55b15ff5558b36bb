"""Tools: whole turns of a model with calls, constrained and read.

tools               the class that users create (tool_set)
tools_constraint    the constraint, also in configurations
definitions         tools as data (functions, custom_tools)
formats             how models write calls
derivation          formats from chat templates
response_templates  formats from response templates
turn_language       the language of a turn (call_language, ordered_calls, alike_tools)
call_order          how many calls there may be, and which after which
turn                what is read: calls, text, events
turn_reader         reads a turn as it grows (turn_text, marked_text, marker_reading)
call_reader         reads one call of it (json_values, delimited_values, member_reading, member_values)
turn_stream         reads token ids or text (named_text), with the constraint beside it
writing             from calls to text
tool_results        what tools return, checked against declared types
"""

from logitkit.tools.formats import ToolFormat as ToolFormat
from logitkit.tools.formats import detect as detect
from logitkit.tools.tools import Tools as Tools
from logitkit.tools.tools_constraint import ToolsConstraint as ToolsConstraint
from logitkit.tools.turn import ArgumentsDelta as ArgumentsDelta
from logitkit.tools.turn import CallDone as CallDone
from logitkit.tools.turn import CallStarted as CallStarted
from logitkit.tools.turn import ReasoningDelta as ReasoningDelta
from logitkit.tools.turn import TextDelta as TextDelta
from logitkit.tools.turn import ToolCall as ToolCall
from logitkit.tools.turn import Turn as Turn
from logitkit.tools.turn_stream import TextTurnStream as TextTurnStream
from logitkit.tools.turn_stream import TurnStream as TurnStream

__all__ = [
    "ArgumentsDelta",
    "CallDone",
    "CallStarted",
    "ReasoningDelta",
    "TextDelta",
    "TextTurnStream",
    "ToolCall",
    "ToolFormat",
    "Tools",
    "ToolsConstraint",
    "Turn",
    "TurnStream",
    "detect",
]
