"""A report that people look at in a browser: one file that asks nothing of a network."""
