#!/bin/sh
# Writes .env beside docker-compose.yml: deploy/env.example with a new password (128 random bits)
# wherever one is asked for, readable by you alone. An .env that is there already stays.
set -eu
cd "$(dirname "$0")/.."
[ ! -e .env ] || { echo "error: there is an .env already; its passwords are in use" >&2; exit 2; }
umask 077
trap 'rm -f .env.new' EXIT
while IFS= read -r line; do
    case $line in
    *_PASSWORD=) line=$line$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') ;;
    esac
    printf '%s\n' "$line"
done <deploy/env.example >.env.new
mv .env.new .env
echo "passwords written to .env: keep it, and keep it out of version control"
