-- A trigger for each operation, because a condition on OLD does not go with INSERT.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_node_pair();
