-- By which spec a kind was last filled in; no row for one that was not made.
SELECT fingerprint FROM farrier.kinds WHERE kind = $1
