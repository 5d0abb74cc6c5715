"""What every server of HTTP needs: access, limits, certificates and errors."""
