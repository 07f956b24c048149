#!/usr/bin/env bash
# Runs a command with a PostgreSQL server of its own: on loopback, in a temporary folder, gone afterwards.
# DFLASH_DOCTOR_POSTGRES holds its address for the command. Uses Debian's package postgresql (server programs below
# /usr/lib/postgresql), or whatever is on PATH; as root the server runs as the user nobody or postgres.
set -euo pipefail
bin=$(dirname "$(command -v initdb || find /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)")
[ -x "$bin/initdb" ] || { echo "no PostgreSQL server here (Debian: apt-get install postgresql)" >&2; exit 1; }
folder=$(mktemp -d)
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
  user=$(id -un postgres 2>/dev/null || echo nobody)
  chown "$user" "$folder"
  as() { setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env HOME="$folder" "$@"; }
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
end() { as "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true; rm -rf "$folder"; }
trap end EXIT
(cd "$folder"
 as "$bin/initdb" -D "$folder/data" -U doctor --auth=trust --no-sync >/dev/null
 as "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w \
   -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories= -c fsync=off" start >/dev/null) ||
  { cat "$folder/log" >&2 || true; exit 1; }
export DFLASH_DOCTOR_POSTGRES="postgresql://doctor@127.0.0.1:$port/postgres"
"$@"
