"""From JSON Schema to languages.

document, references, pointer, keywords             load a document, and resolve what it refers to (resources: other documents;
                    metaschemas: those of the drafts)
python_types        from Python types and pydantic models to schemas (validated_schema, validated_text,
                    validated_numbers, set_members, type_patterns, time_bounds, exact_bounds)
validated_constraints    constraints around a type that does not have them itself (added_constraints)
rust_patterns, python_patterns    the patterns of types, by the engine that matches them (character_classes)
reader              from keywords to sets of values (applicators, assertions, array_keywords, object_keywords,
                    conjunction, checked, handlers), and the schemas by place (schema_places)
values              sets of values by type (objects, arrays, number_set, string_set, string_union, emptiness,
                    simple_negations), and whether one value belongs to them (membership)
plan, writer        how objects and arrays are written (members, member_names, object_plan, array_union, array_plan, unique_items,
                    remembered_items, member_orders, parts, layout, constants), long runs of items and members in blocks
                    (blocks), branches that would multiply (clause_plan, clauses) or have equal members (merged_plans),
                    values that several names lead to (value_graph), and the parts that begin in the same place (together)
left_out            the keywords that lax=True leaves out, misspelt keywords (misspelt), and patterns that may stand
                    anywhere in a text (searched_patterns), in all schemas inside a schema (subschemas)
formats, ecma       languages of strings (addresses, dates, search, ecma_translation), and how they are written
                    (string_text, string_fragment, string_spellings, delimited_strings)
decimals            languages of numbers (multiples, comparison)
compile             from a document to the nested grammar that the compiler takes
"""

from logitkit.json_schema.number_set import NumberSet as NumberSet
from logitkit.json_schema.string_set import StringSet as StringSet

__all__ = ["NumberSet", "StringSet"]
