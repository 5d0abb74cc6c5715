-- Issues a new bootstrap token for a node.
SELECT farrier.issue_bootstrap($1, $2)
