"""Actions on many resources: each is submitted and followed, with a limit of how many are in progress at a time. The
command line and the pages use this package."""
