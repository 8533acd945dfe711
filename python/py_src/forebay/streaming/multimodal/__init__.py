"""Texts with videos, inside the shards or beside them."""
