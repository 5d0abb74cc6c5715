-- Records reports of a monitor, and returns their verdicts in the order of the reports.
SELECT r.verdict, r.reason FROM farrier.report_as($1, $2::jsonb) r ORDER BY r.place
