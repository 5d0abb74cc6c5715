CREATE OR REPLACE TRIGGER holds_no_rows BEFORE INSERT ON farrier.resources
    FOR EACH ROW EXECUTE FUNCTION farrier.refuse_template_row();
