"""For all tests, doctests of the sources included."""

pytest_plugins = ["tests.missing_engines"]
