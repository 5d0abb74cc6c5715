"""What the loop and its storage exchange: snapshots and outcomes go in, runs and results of commits come out."""
