"""Requests of different configurations in one batch: one state, and one call a step, for each kind of processor.

`steps` takes a processor apart into its steps of the canonical order, `neutral` are the states of rows that lack one, and
`ending` is what a chain does beside its processors. `batch` holds the rows of an engine's batch.
"""
