-- Grants every role its rights on the tables of kinds, and on the functions that kinds let it call.
SELECT farrier.grant_rights()
