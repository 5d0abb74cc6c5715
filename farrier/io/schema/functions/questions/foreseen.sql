-- Returns the answers to the questions of a call of farrier.foresee(), in their order. verdict is null until a controller has answered;
-- then it is accepted, rejected, or depends: only the intent itself can find out, because its answer needs a reading or waits.
CREATE OR REPLACE FUNCTION farrier.foreseen(call uuid) RETURNS TABLE (place integer, verdict text, reason text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT q.place, q.verdict, q.reason FROM questions q WHERE q.asked = call ORDER BY q.place
$$;
