-- Derives the identities of all nodes again, after a change of identity_placeholders.
SELECT farrier.derive_identities()
