-- The part of a commit that writes nodes. $22 are the sections of their runs; each of the other arguments is an array with an element
-- for each run.
SELECT w.run, w.due_in FROM farrier.write_nodes_and_networks($22::jsonb, b.lost, $23, $24, $25, $26, $27, $28) w
