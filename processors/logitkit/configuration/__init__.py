"""The JSON form of processors: what servers take.

`kinds` lists the processors with their parameters, `forms` the forms of values. `reading` is `from_config`, `writing` is
`to_config`, and `schema` the JSON Schema of what they read and write.
"""
