"""Two runs held against each other: what differs, by how much beyond noise, and what that may be credited to."""
