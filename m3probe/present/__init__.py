"""Typed answers -> text: terminal, JSON, JUnit. Nothing here prints, reads a file or judges."""
