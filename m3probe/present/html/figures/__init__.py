"""What is drawn: one file for each question, a pure function from a view to figures each."""
