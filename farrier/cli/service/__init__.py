"""Commands that run processes: take settings, and run the controller, a server or a demo until a signal."""
