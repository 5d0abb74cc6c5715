"""Options that commands share: take words from the command line, and return values, completions and suggestions."""
