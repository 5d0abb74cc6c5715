-- Sends one listener a message that only a listening session receives.
SELECT pg_notify('farrier_probe', $1)
