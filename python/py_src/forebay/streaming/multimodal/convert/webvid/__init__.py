"""WebVid: download of its videos, and extraction of videos from shards."""
