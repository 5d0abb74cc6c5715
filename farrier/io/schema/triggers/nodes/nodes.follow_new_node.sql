-- Separate from follow_node, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER follow_new_node AFTER INSERT ON farrier.nodes FOR EACH ROW EXECUTE FUNCTION farrier.follow_node();
