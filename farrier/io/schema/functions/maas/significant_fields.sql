-- Returns the fields of an observation on which a node's handler decides.
CREATE OR REPLACE FUNCTION farrier.significant_fields(detail jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN detail - '{last_sync,netboot,status_name,status_message,error_description,osystem,distro_series,commissioning_status_name,testing_status_name}'::text[];
