"""LAION's data sets."""
