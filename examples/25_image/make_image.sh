#!/bin/sh
# Writes a container image into the folder `image`, in the OCI layout, without an engine: one program that needs no library.
set -e
cd "$(dirname "$0")"
cc -static -O2 -o server server.c
rm -rf image
umoci init --layout image
umoci new --image image:1
umoci insert --rootless --image image:1 server /bin/server
umoci config --image image:1 --config.entrypoint /bin/server --config.env GREETING=hello --config.user 1000 --config.exposedports 8080/tcp
# The worker reads it as a user without rights.
chmod -R a+rX image
