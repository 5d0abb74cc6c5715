-- Allows functions to be created before the objects to which they refer, until the transaction ends.
SELECT set_config('check_function_bodies', 'off', true)
