-- Monitors, which state conditions of nodes. Each login may state the conditions for which farrier.grant_monitor granted it the
-- right.
GRANT EXECUTE ON FUNCTION farrier.set_condition, farrier.end_condition, farrier.report_conditions TO farrier_monitor;
