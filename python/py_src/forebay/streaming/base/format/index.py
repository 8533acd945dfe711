"""Index of a data set."""

__all__ = ["get_index_basename"]


def get_index_basename() -> str:
    """Returns the file name of every index."""
    return "index.json"
