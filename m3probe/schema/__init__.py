"""The words that cross every doorway: verdicts, families, phases, outcomes."""
