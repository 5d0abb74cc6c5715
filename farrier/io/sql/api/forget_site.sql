-- Removes the region of a site that is in no controller's settings any more.
SELECT farrier.forget_site($1)
