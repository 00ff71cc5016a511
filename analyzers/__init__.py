"""Pure judgement: a recording in, findings out. One file per question (constant ``ANALYZER``)."""
