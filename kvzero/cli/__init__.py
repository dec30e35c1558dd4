"""The command line: it parses, prints and exits; nothing else does."""
