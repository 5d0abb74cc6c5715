#!/bin/sh
# PostgreSQL's image runs this once, when it creates the cluster. `farrier db migrate` gives the role its rights.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --set=password="$(cat /run/secrets/daemon-password)" <<'SQL'
CREATE ROLE farrier_controller;
CREATE ROLE fleetd LOGIN PASSWORD :'password' IN ROLE farrier_controller;
SQL
