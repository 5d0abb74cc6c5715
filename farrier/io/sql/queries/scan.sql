-- Makes the server plan the statements of this transaction for their parameter values, and lets them read whole tables.
-- The settings of the session suit statements that find a few rows by keys.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true)
