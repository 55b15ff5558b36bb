"""Tools: whole turns of a model with calls, constrained and read.

tools             the class that users create (tool_set)
tools_constraint  the constraint, also in configurations
definitions       tools as data (functions, docstrings)
formats           how models write calls
turn_language     the language of a turn
turn              what is read: calls, text, events
turn_reader       reads a turn as it grows (json_end, xml_reading, member_values, marked_text)
turn_stream       reads token ids, with the constraint beside it
writing           from calls to text
"""

from logitkit.tools.formats import ToolFormat as ToolFormat
from logitkit.tools.tools import Tools as Tools
from logitkit.tools.turn import ToolCall as ToolCall
from logitkit.tools.turn import Turn as Turn

__all__ = ["ToolCall", "ToolFormat", "Tools", "Turn"]
