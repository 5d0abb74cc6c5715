"""What every HTTP server of farrier needs: connections go in; authorized requests, limits and errors come out."""
