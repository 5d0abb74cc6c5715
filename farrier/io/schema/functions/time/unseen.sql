-- What is known of a BMC when nobody sees how the run that is under way ends: a power action was perhaps sent, and a login
-- perhaps refused, so it stays counted and serves no other.
CREATE OR REPLACE FUNCTION farrier.unseen(bmc jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN (bmc - 'trying') || CASE WHEN bmc ? 'switching'
                                    THEN jsonb_build_object('switching', bmc -> 'switching' || '{"unsure": true}') ELSE '{}' END;
