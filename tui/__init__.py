"""The terminal viewer: screens over a report and a recording that it is given."""
