"""The parameters of processors, each declared once.

A form such as `Number(0, 1)` checks an argument, reads and writes its JSON value, describes it in JSON Schema, and defines the
values allowed in a saved state.

form, place              the interface of all forms; the place of a value in a configuration, for errors
scalars, numbers          which values count as numbers (Python's, numpy's and torch's); Integer and Number
forms                    Boolean, Null, Text, Word, ListOf, Either
secrets                  SecretInteger and SecretIntegers, which errors do not show
token_ids                TokenId, TokenIds, and maps and automata of token ids
documents                SchemaForm, SchemasForm, GrammarsForm and Nested: schemas, grammars, configurations inside of others
"""

from logitkit.parameters.documents import GrammarsForm as GrammarsForm
from logitkit.parameters.documents import Nested as Nested
from logitkit.parameters.documents import SchemaForm as SchemaForm
from logitkit.parameters.documents import SchemasForm as SchemasForm
from logitkit.parameters.form import Form as Form
from logitkit.parameters.forms import Boolean as Boolean
from logitkit.parameters.forms import Either as Either
from logitkit.parameters.forms import ListOf as ListOf
from logitkit.parameters.forms import Null as Null
from logitkit.parameters.forms import Text as Text
from logitkit.parameters.forms import Word as Word
from logitkit.parameters.numbers import Integer as Integer
from logitkit.parameters.numbers import Number as Number
from logitkit.parameters.secrets import SecretInteger as SecretInteger
from logitkit.parameters.secrets import SecretIntegers as SecretIntegers
from logitkit.parameters.token_ids import BySequence as BySequence
from logitkit.parameters.token_ids import ByToken as ByToken
from logitkit.parameters.token_ids import Moves as Moves
from logitkit.parameters.token_ids import State as State
from logitkit.parameters.token_ids import TokenId as TokenId
from logitkit.parameters.token_ids import TokenIds as TokenIds

__all__ = [
    "Boolean",
    "BySequence",
    "ByToken",
    "Either",
    "Form",
    "GrammarsForm",
    "Integer",
    "ListOf",
    "Moves",
    "Nested",
    "Null",
    "Number",
    "SchemaForm",
    "SchemasForm",
    "SecretInteger",
    "SecretIntegers",
    "State",
    "Text",
    "TokenId",
    "TokenIds",
    "Word",
]
