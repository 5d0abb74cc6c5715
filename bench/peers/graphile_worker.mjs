// graphile-worker 0.18: `node graphile_worker.mjs migrate|work DSN`. $PEERS_NODE_MODULES is the directory in which
// `npm install graphile-worker@0.18` was run.
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.PEERS_NODE_MODULES, "package.json"));
const { Pool } = require("pg");
const { run, runMigrations, Logger } = require("graphile-worker");
const [what, dsn] = process.argv.slice(2);
const url = new URL(dsn.replace(/^postgresql:\/\/([^@]*)@\//, "postgresql://$1@localhost/"));
const pgPool = new Pool({
  host: url.searchParams.get("host") ?? url.hostname,
  user: decodeURIComponent(url.username) || "postgres",
  database: url.pathname.slice(1),
  max: 25,
});
// A pool without a listener ends the process at an error of an idle connection, and graphile-worker warns of it.
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));

if (what === "migrate") {
  await runMigrations({ pgPool });
  await pgPool.end();
  process.exit(0);
}

const LOAD = { name: "load", text: "SELECT id, state, version, props FROM thing WHERE id = $1" };
const STEP = {
  name: "step",
  text: `WITH moved AS (
    UPDATE thing SET state = 'there', version = version + 1, changed_at = clock_timestamp()
     WHERE id = $1 AND version = $2 RETURNING id, version)
INSERT INTO thing_history (thing, from_state, to_state, version) SELECT id, $3, 'there', version FROM moved`,
};
const load = async (client, id) => (await client.query({ ...LOAD, values: [id] })).rows[0];
const taskList = {
  load: ({ id }, helpers) => helpers.withPgClient(async (client) => { await load(client, id); }),
  step: ({ id }, helpers) => helpers.withPgClient(async (client) => {
    const row = await load(client, id);
    if (row.state === "here") await client.query({ ...STEP, values: [id, row.version, row.state] });
  }),
};
const runner = await run({
  pgPool, taskList, noHandleSignals: true, parsedCronItems: [],
  preset: {
    worker: { concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
  },
  logger: new Logger(() => () => {}),
});
setTimeout(() => console.log("READY"), 800);
process.on("SIGTERM", async () => {
  await runner.stop().catch(() => {});
  process.exit(0);
});
