"""Adapters for libraries that take more than an iterable of batches. Each module imports its own library only."""
