-- Sets the role of this transaction to the schema's owner, so that new objects belong to that role, independent of the login that
-- migrates: a function with its owner's rights must not get those of a superuser, and the owner must be able to replace it.
SELECT set_config('role', pg_get_userbyid(n.nspowner), true)
  FROM pg_namespace n
 WHERE n.nspname = 'farrier' AND pg_get_userbyid(n.nspowner) <> current_user
