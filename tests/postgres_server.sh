#!/bin/sh
# postgres_server.sh start|stop|crash|freeze|thaw|promote FOLDER: a PostgreSQL server for tests, on a Unix socket in FOLDER and on
# no network, as an unprivileged user where root starts it. `start` prints its URL. Exit status 77: it is not installed.
# postgres_server.sh start FOLDER PRIMARY: as a standby of the one in PRIMARY, which from then on acknowledges what both have.
set -eu
verb=$1 folder=$2
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
if [ -z "$bin" ] || [ ! -x "$bin/initdb" ]; then
    echo "PostgreSQL's server is not installed (package postgresql)" >&2
    exit 77
fi
run() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
pid() { head -n 1 "$folder/data/postmaster.pid"; }
case $verb in
start)
    if [ ! -d "$folder/data" ]; then
        mkdir -p "$folder/data" "$folder/socket"
        if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "$folder"; fi
        # From the root folder, as the user may not read the present one.
        if [ -n "${3:-}" ]; then
            chmod 700 "$folder/data"
            (cd / && run "$bin/pg_basebackup" -D "$folder/data" -d "host=$3/socket user=lambent dbname=postgres" -R -X stream -c fast \
                --no-sync) || exit 1
        else
            (cd / && run "$bin/initdb" -D "$folder/data" -U lambent --auth=trust --no-sync --locale=C --encoding=UTF8 >"$folder/initdb.log")
        fi
    fi
    (cd / && run "$bin/pg_ctl" -D "$folder/data" -w -t 60 -l "$folder/data/server.log" -o \
        "-c listen_addresses='' -c unix_socket_directories='$folder/socket' -c fsync=off -c shared_buffers=16MB -c max_connections=40" \
        start >/dev/null 2>&1) || { cat "$folder/data/server.log" >&2; exit 1; }
    if [ -n "${3:-}" ]; then
        for set in "ALTER SYSTEM SET synchronous_standby_names = '*'" "SELECT pg_reload_conf()"; do
            psql -q -o /dev/null -h "$3/socket" -U lambent -d postgres -c "$set"
        done
    fi
    echo "postgresql://lambent@/postgres?host=$folder/socket"
    ;;
promote) (cd / && run "$bin/pg_ctl" -D "$folder/data" -w -t 60 promote >/dev/null) ;;
stop) (cd / && run "$bin/pg_ctl" -D "$folder/data" -m fast -w stop >/dev/null) ;;
crash) (cd / && run "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null) ;;
freeze) kill -STOP $(pgrep -P "$(pid)") "$(pid)" ;;
thaw) kill -CONT $(pgrep -P "$(pid)") "$(pid)" ;;
esac
