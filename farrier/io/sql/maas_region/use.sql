-- Records the regions of the sites that this controller has configured; other regions stay unchanged.
SELECT farrier.set_sites($1::jsonb)
