-- Keeps farrier.resources empty (FR409): it is the template of the tables of kinds. Trigger function.
CREATE OR REPLACE FUNCTION farrier.refuse_template_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'farrier.resources is the template for tables of kinds and has no rows' USING ERRCODE = 'FR409';
END $$;
