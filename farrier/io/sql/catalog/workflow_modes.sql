-- Replaces the modes of workflows and their properties.
WITH want AS (SELECT * FROM unnest($1::text[], $2::boolean[]) AS w (mode, uses_maas)),
     gone AS (DELETE FROM farrier.workflow_modes m WHERE NOT EXISTS (SELECT FROM want w WHERE w.mode = m.mode))
INSERT INTO farrier.workflow_modes (mode, uses_maas) SELECT mode, uses_maas FROM want
    ON CONFLICT (mode) DO UPDATE SET uses_maas = excluded.uses_maas
