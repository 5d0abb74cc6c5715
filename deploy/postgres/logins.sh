#!/bin/sh
# PostgreSQL's image runs this once, when it creates the cluster. `farrier db migrate` gives the roles their rights.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --set=daemon="$(cat /run/secrets/daemon-password)" \
    --set=serve="$(cat /run/secrets/serve-password)" \
    --set=agents="$(cat /run/secrets/agents-password)" <<'SQL'
CREATE ROLE farrier_controller;
CREATE ROLE farrier_intents;
CREATE ROLE farrier_reader;
CREATE ROLE farrier_agent;
CREATE ROLE fleetd LOGIN PASSWORD :'daemon' IN ROLE farrier_controller;
CREATE ROLE fleetweb LOGIN PASSWORD :'serve' IN ROLE farrier_intents, farrier_reader;
CREATE ROLE fleetdoor LOGIN PASSWORD :'agents' IN ROLE farrier_agent;
SQL
