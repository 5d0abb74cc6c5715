-- Declares a controller dead whose renewals stood still or, if $2 is null, a former ID of this process. The dead
-- controller can no longer renew.
UPDATE farrier.controllers c SET expired = true
 WHERE c.id = $1 AND c.renewals = coalesce($2, c.renewals) AND NOT c.expired AND farrier.on_disk()
