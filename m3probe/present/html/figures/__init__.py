"""Plots of the report: each file has `figures(view) -> tuple[Figure, ...]`, () where their data is missing."""
