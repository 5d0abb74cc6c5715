"""Commands of `history`: take filters, and print changes, or follow them."""
