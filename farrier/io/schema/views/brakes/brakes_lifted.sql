-- Sites whose brake an operator has lifted, as long as the lift is in force. The newest lift of a site replaces earlier ones.
CREATE OR REPLACE VIEW farrier.brakes_lifted AS
SELECT l.site, l.at, l.until, l.reason, l.requested_by
  FROM (SELECT DISTINCT ON (b.site) b.site, b.at, b.until, b.reason, b.requested_by
          FROM farrier.brake_lifts b
         ORDER BY b.site, b.id DESC) l
 WHERE l.until > farrier.now();
