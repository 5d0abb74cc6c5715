-- Gives every role that exists its rights; a role that was made after the migrations has none before.
SELECT farrier.grant_rights()
