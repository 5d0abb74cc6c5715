-- Replaces the settings that functions read.
UPDATE farrier.settings s SET offline_after = $1, brake_share = $2::double precision, brake_at_least = $3, brake_window = $4
 WHERE (s.offline_after, s.brake_share, s.brake_at_least, s.brake_window) IS DISTINCT FROM ($1, $2::double precision::numeric, $3, $4)
