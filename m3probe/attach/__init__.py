"""The host's side of a live recording: finds a server, says what it offers, and asks its guests."""
