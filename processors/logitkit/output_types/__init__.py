"""Output types: what a caller may ask a model to write, such as a Python type, a schema, a language or tools.

output_type    OutputType, which compiles to a constraint and reads an output as a value
definitions    the output types: of a processor, a language or pattern, tools, a type or schema
partial_values  the value of the beginning of a JSON text
accepted       output_type_of: the output type of a value that a caller gave
"""

from logitkit.output_types.accepted import output_type_of as output_type_of
from logitkit.output_types.output_type import OutputType as OutputType

__all__ = ["OutputType", "output_type_of"]
