"""Commands of `db`: take options, and return what a migration did, would do, or what a restore holds."""
