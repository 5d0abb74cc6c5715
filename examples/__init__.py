"""Programs beside farrier that operators can copy and change."""
