"""Lets `python -m farrier` run the command `farrier`."""

from __future__ import annotations

from farrier.cli import main

if __name__ == "__main__":
    main()
