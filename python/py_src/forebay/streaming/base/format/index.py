"""The index of a data set."""

__all__ = ["get_index_basename"]


def get_index_basename() -> str:
    """The name that the index has in every data set."""
    return "index.json"
