"""The rows of the registry, one module a family of processors."""
