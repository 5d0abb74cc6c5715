-- Brakes that now hold nodes in service, one for each site and cause (source): since when (since), how many it holds (held), how many leave service or are held
-- (leaving), and how many are in service (in_service).
CREATE OR REPLACE VIEW farrier.brakes_holding AS
SELECT b.site, b.source, b.since, d.held, d.leaving, b.in_service
  FROM farrier.brakes b
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE x.held) AS held, count(*) AS leaving
         FROM farrier.departing x
        WHERE x.site = b.site AND x.source = b.source) d
 WHERE d.held > 0
   AND NOT EXISTS (SELECT FROM farrier.brakes_lifted l WHERE l.site = b.site);
