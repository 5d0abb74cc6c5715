"""Wake-ups: asking for them from Python (`Enqueuer`), and hearing of them (`Listener`). SQL has farrier.enqueue."""
