-- Sends a notification with which a listener tests its connection.
SELECT pg_notify('farrier_probe', $1)
