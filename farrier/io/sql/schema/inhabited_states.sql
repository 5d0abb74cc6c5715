-- The states that resources of a kind are in, ended ones left out.
SELECT DISTINCT state FROM farrier.list_resources($1) ORDER BY state
