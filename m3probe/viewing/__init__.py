"""Where a viewer's views come from: a server's address, a process, a recording that grows, files that were read."""
