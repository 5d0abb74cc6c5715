-- Stores answers; $1 are the ids of the questions, $2 the verdicts and $3 the reasons.
UPDATE farrier.questions q SET verdict = a.verdict, reason = a.reason
  FROM unnest($1::bigint[], $2::text[], $3::text[]) a (id, verdict, reason) WHERE q.id = a.id
