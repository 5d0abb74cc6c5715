-- Returns nodes.bmc as it has to be after a run whose end was not seen: a power action may have been sent (switching is unsure),
-- and a login may have been refused, so it stays counted and no run may use it (trying is removed).
CREATE OR REPLACE FUNCTION farrier.unseen(bmc jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN (bmc - 'trying') || CASE WHEN bmc ? 'switching'
                                    THEN jsonb_build_object('switching', bmc -> 'switching' || '{"unsure": true}') ELSE '{}' END;
