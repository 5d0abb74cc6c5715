-- Declares a controller dead whose renewals stood still: it can renew no more.
UPDATE farrier.controllers c SET expired = true
 WHERE c.id = $1 AND c.renewals = $2 AND NOT c.expired AND farrier.on_disk()
