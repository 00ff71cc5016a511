"""What every record shares."""

from __future__ import annotations

import msgspec

FORMAT = 1
"""Raised when an old reader would misread a new file; added fields and tags do not."""


class Record(msgspec.Struct, tag_field="k", gc=False, omit_defaults=True, kw_only=True):
    """What every record shares: nothing but its tag."""
