-- The id of a site's MAAS region.
SELECT r.id FROM farrier.maas_regions r WHERE r.site = $1
