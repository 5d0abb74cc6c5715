-- What identifies no machine; after a change, what nodes have recorded is looked at anew.
SELECT farrier.set_identity_placeholders($1)
