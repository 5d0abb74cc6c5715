-- Sends one listener a message that only a listening session can get.
SELECT pg_notify('farrier_probe', $1)
