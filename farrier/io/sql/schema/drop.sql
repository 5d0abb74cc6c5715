-- Returns the statement that drops an object; $1 is its kind, $2 its identity.
SELECT format('DROP %s IF EXISTS %s', $1::text, $2::text)
