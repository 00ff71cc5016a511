"""Bytes to a recording: one file per format, found by a folder scan (constant ``READER``)."""
