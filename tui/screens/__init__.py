"""Screens: the one that draws every sheet, and those over it."""
