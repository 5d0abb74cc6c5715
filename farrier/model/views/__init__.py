"""Views: rows of queries go in; what people, programs and the API see comes out."""
