"""Kernels by name: demangling and the family grammar (``grammar.classify``)."""
