"""Output that commands share: takes views, and prints tables, JSON or names."""
