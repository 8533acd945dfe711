"""Texts: tokenised as they are read, or before."""
