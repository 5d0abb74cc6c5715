-- Plans the statements of this transaction for their values, and lets them read whole tables. The settings of the session are for
-- statements that find a few rows by keys.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true)
