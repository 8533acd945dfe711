"""WebVid: fetching its videos, and taking them out of the shards again."""
