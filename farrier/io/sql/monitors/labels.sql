-- Returns which labels of a monitor's alerts name what, where they differ from the defaults.
SELECT farrier.alert_labels($1)::text
