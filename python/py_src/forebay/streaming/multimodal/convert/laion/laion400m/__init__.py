"""LAION-400M."""
