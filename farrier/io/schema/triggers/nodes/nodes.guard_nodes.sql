-- One call for each statement: a query of all its rows costs a tenth of a query for each row.
CREATE OR REPLACE TRIGGER guard_nodes AFTER UPDATE ON farrier.nodes
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION farrier.guard_nodes();
