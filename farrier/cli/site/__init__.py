"""Commands of `site`: take site files, and print faults, regions, brakes and secrets that cannot be read."""
