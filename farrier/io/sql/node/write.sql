-- The part of a commit that writes nodes. $24 are the sections of their runs; write_nodes describes the other
-- arguments.
SELECT w.run, w.due_in FROM farrier.write_nodes_and_networks($24::jsonb, b.lost, $25, $26, $27, $28, $29, $30, $31, $32) w
