#!/bin/sh
# Creates the secrets of compose.yaml in the directory `secrets` beside this script, which only the owner may enter. The
# accounts in the containers are other ones, so every user may read the files.
set -eu
cd "$(dirname "$0")"
mkdir -m 700 secrets
cd secrets
for name in owner-password daemon-password serve-password agents-password grafana-password api-token; do
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >$name
done
echo "postgresql://fleetowner:$(cat owner-password)@db/farrier" >owner-dsn
echo "postgresql://fleetd:$(cat daemon-password)@db/farrier" >daemon-dsn
echo "postgresql://fleetweb:$(cat serve-password)@db/farrier" >serve-dsn
echo "postgresql://fleetdoor:$(cat agents-password)@db/farrier" >agents-dsn
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,DNS:agents -keyout agents-key -out agents-cert 2>/dev/null
chmod 644 ./*
