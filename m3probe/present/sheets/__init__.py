"""Report and recording to sheets: pure functions, one file for each kind of page."""
