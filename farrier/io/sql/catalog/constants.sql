-- Replaces the constants of the model; returns whether identity_placeholders ($7) changed.
INSERT INTO farrier.constants AS c (api_min, api_max, confirmed_after, login_cap, login_window, ssh_seed_limit, identity_placeholders,
                                    brake_retry, pulse_lost, reach_lost, reach_expected, evidence, conditions_of_source)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (only_one) DO UPDATE
   SET api_min = excluded.api_min, api_max = excluded.api_max, confirmed_after = excluded.confirmed_after, login_cap = excluded.login_cap,
       login_window = excluded.login_window, ssh_seed_limit = excluded.ssh_seed_limit, identity_placeholders = excluded.identity_placeholders,
       brake_retry = excluded.brake_retry, pulse_lost = excluded.pulse_lost, reach_lost = excluded.reach_lost, reach_expected = excluded.reach_expected,
       evidence = excluded.evidence, conditions_of_source = excluded.conditions_of_source
RETURNING c.identity_placeholders IS DISTINCT FROM (SELECT o.identity_placeholders FROM farrier.constants o)
